import java.io.*;
import java.lang.reflect.*;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.stream.*;

/**
 * Opens a store directory with the classes of the original broker and prints what they find, as one JSON object.
 *
 *   StoreOracle STORE [--conf broker.conf] [--index topic=key[,topic=key...]] [--set key=value]... [--start PORT] [--compact]
 *
 * STORE is copied first (the original repairs what it opens), so it is never changed. The copy is opened by BrokerController.initialize(),
 * that is: message store, consume queues, index, timers, and every JSON file, without opening a port. --start PORT also starts the store
 * (dispatch of what recovery left, HA on PORT) and stops it again. Works with the 5.x and the 4.9 jars. Exit status 0 whatever was found, 1 when the oracle itself failed.
 */
public class StoreOracle {
    static final String ROOT = "org.apache.rocketmq.";
    static boolean five;

    public static void main(String[] a) {
        try { run(a); } catch (Throwable t) { t.printStackTrace(); Runtime.getRuntime().halt(1); } // the original's threads would keep the process
    }

    static void run(String[] a) throws Exception {
        Path store = Paths.get(a[0]).toAbsolutePath();
        Properties conf = new Properties();
        List<String> index = new ArrayList<>();
        int start = 0;
        boolean compact = false;
        for (int i = 1; i < a.length; i++) {
            if (a[i].equals("--conf")) try (Reader r = Files.newBufferedReader(Paths.get(a[++i]))) { conf.load(r); }
            else if (a[i].equals("--index")) index.addAll(Arrays.asList(a[++i].split(",")));
            else if (a[i].equals("--set")) { String[] kv = a[++i].split("=", 2); conf.setProperty(kv[0], kv[1]); }
            else if (a[i].equals("--start")) start = Integer.parseInt(a[++i]);
            else if (a[i].equals("--compact")) compact = true;
        }
        Path work = Files.createTempDirectory("store-oracle");
        Path copy = work.resolve("store");
        Process cp = new ProcessBuilder("cp", "-a", "--sparse=always", store.toString(), copy.toString()).inheritIO().start();
        if (cp.waitFor() != 0) throw new IOException("copy failed");
        Map<String, String> before = sums(copy);
        Path log = work.resolve("oracle.log");
        logging(work, log);
        PrintStream out = System.out;
        System.setOut(System.err);

        conf.setProperty("storePathRootDir", copy.toString());
        conf.setProperty("storePathCommitLog", copy.resolve("commitlog").toString());
        conf.remove("namesrvAddr");
        if (start > 0) conf.setProperty("haListenPort", "" + start);
        Class<?> mixAll = Class.forName(ROOT + "common.MixAll");
        Method fill = mixAll.getMethod("properties2Object", Properties.class, Object.class);
        Object brokerConfig = make("common.BrokerConfig"), server = make("remoting.netty.NettyServerConfig"), client = make("remoting.netty.NettyClientConfig");
        Object storeConfig = make("store.config.MessageStoreConfig");
        for (Object o : new Object[]{brokerConfig, server, client, storeConfig}) fill.invoke(null, conf, o);
        int version = Class.forName(ROOT + "common.MQVersion").getField("CURRENT_VERSION").getInt(null);
        String name = (String) Class.forName(ROOT + "common.MQVersion").getMethod("getVersionDesc", int.class).invoke(null, version);
        five = name.startsWith("V5");

        Constructor<?> made = Class.forName(ROOT + "broker.BrokerController").getConstructor(brokerConfig.getClass(), server.getClass(), client.getClass(), storeConfig.getClass());
        Object broker = made.newInstance(brokerConfig, server, client, storeConfig);
        Map<String, Object> report = new LinkedHashMap<>();
        report.put("version", name);
        report.put("store", store.getFileName().toString());
        report.put("abortPresent", before.containsKey("abort"));
        boolean loaded = false;
        String failure = null;
        try { loaded = (Boolean) call(broker, "initialize"); } catch (Throwable t) { failure = String.valueOf(t instanceof InvocationTargetException ? t.getCause() : t); }
        report.put("loaded", loaded);
        report.put("failure", failure);
        Object ms = call(broker, "getMessageStore");
        if (loaded && start > 0) {
            call(ms, "start");
            for (int i = 0; i < 100 && (Long) call(ms, "dispatchBehindBytes") > 0; i++) Thread.sleep(50);
        }
        if (loaded) {
            if (start == 0) open(ms);
            Thread.sleep(300);
            report.put("files", files(copy));
            report.put("changedByLoading", changed(before, sums(copy)));
            report.put("commitLog", commitLog(ms, (Integer) call(storeConfig, "getMappedFileSizeCommitLog")));
            report.put("queues", queues(ms));
            report.put("index", index(ms, index));
            if (five) report.put("timer", timer(copy, storeConfig));
            report.put("binary", binary(copy));
            report.put("managers", managers(broker));
        }
        report.put("json", json(store));
        report.put("log", warnings(log));
        StringBuilder b = new StringBuilder();
        write(b, report, compact ? -1 : 0);
        out.println(b);
        out.flush();
        if (loaded && start > 0) call(ms, "shutdown");
        Process rm = new ProcessBuilder("rm", "-rf", work.toString()).start();
        rm.waitFor();
        Runtime.getRuntime().halt(0);
    }

    /** A store that is loaded but not started refuses reads. */
    static void open(Object ms) throws Exception {
        for (Class<?> c = ms.getClass(); c != null; c = c.getSuperclass())
            try { Field f = c.getDeclaredField("shutdown"); f.setAccessible(true); f.set(ms, false); return; } catch (NoSuchFieldException x) { /* up */ }
    }

    // ---- commit log -------------------------------------------------------------------------------------------------
    static Object commitLog(Object ms, int fileSize) throws Exception {
        long min = (Long) call(ms, "getMinPhyOffset"), max = (Long) call(ms, "getMaxPhyOffset");
        Map<String, Object> r = new LinkedHashMap<>();
        r.put("minOffset", min);
        r.put("maxOffset", max);
        List<Object> records = new ArrayList<>(), blanks = new ArrayList<>();
        r.put("records", records);
        r.put("blanks", blanks);
        long at = min;
        while (at >= 0 && at < max) {
            Object slice = ms.getClass().getMethod("getCommitLogData", long.class).invoke(ms, at);
            if (slice == null) { r.put("unreadableAt", at); break; }
            ByteBuffer raw = (ByteBuffer) call(slice, "getByteBuffer");
            int size = raw.remaining() < 8 ? 0 : raw.getInt(raw.position()), magic = raw.remaining() < 8 ? 0 : raw.getInt(raw.position() + 4);
            if (magic == 0xCBD43194) { blanks.add(Arrays.asList(at, size)); call(slice, "release"); at = at - at % fileSize + fileSize; continue; }
            if (size <= 0 || size > raw.remaining()) { r.put("stoppedAt", at); call(slice, "release"); break; }
            byte[] bytes = new byte[size];
            raw.duplicate().get(bytes);
            call(slice, "release");
            records.add(message(ByteBuffer.wrap(bytes), at));
            at += size;
        }
        r.put("walkedTo", at);
        return r;
    }

    static Map<String, Object> message(ByteBuffer raw, long at) throws Exception {
        Map<String, Object> m = new LinkedHashMap<>();
        m.put("physicalOffset", at);
        m.put("magic", String.format("%08X", raw.getInt(4)));
        m.put("bodyCRC", raw.getInt(8));
        int size = raw.getInt(0), sysFlag = raw.getInt(36);
        Class<?> decoder = Class.forName(ROOT + "common.message.MessageDecoder");
        Object e = decoder.getMethod("decode", ByteBuffer.class, boolean.class, boolean.class).invoke(null, raw.duplicate(), true, true);
        if (e == null) { m.put("undecodable", true); m.put("size", size); return m; }
        m.put("size", call(e, "getStoreSize"));
        m.put("topic", call(e, "getTopic"));
        m.put("queueId", call(e, "getQueueId"));
        m.put("queueOffset", call(e, "getQueueOffset"));
        m.put("recordedPhysicalOffset", call(e, "getCommitLogOffset"));
        m.put("offsetMsgId", field(e, "offsetMsgId", "msgId"));
        m.put("flag", call(e, "getFlag"));
        m.put("sysFlag", sysFlag);
        m.put("bornTimestamp", call(e, "getBornTimestamp"));
        m.put("bornHost", String.valueOf(call(e, "getBornHost")));
        m.put("storeTimestamp", call(e, "getStoreTimestamp"));
        m.put("storeHost", String.valueOf(call(e, "getStoreHost")));
        m.put("reconsumeTimes", call(e, "getReconsumeTimes"));
        m.put("preparedTransactionOffset", call(e, "getPreparedTransactionOffset"));
        Map<?, ?> properties = (Map<?, ?>) call(e, "getProperties");
        m.put("properties", properties == null ? null : new TreeMap<Object, Object>(properties));
        byte[] body = (byte[]) call(e, "getBody");
        Object kept = decoder.getMethod("decode", ByteBuffer.class, boolean.class, boolean.class).invoke(null, raw.duplicate(), true, false);
        byte[] stored = (byte[]) call(kept, "getBody");
        m.put("storedBodyLength", stored == null ? 0 : stored.length);
        m.put("storedBodySha256", stored == null ? null : sha(stored));
        m.put("bodyLength", body == null ? 0 : body.length);
        m.put("bodySha256", body == null ? null : sha(body));
        if (body != null && body.length <= 64) m.put("bodyHex", hex(body));
        return m;
    }

    static Object field(Object o, String... names) throws Exception {
        for (String n : names)
            for (Class<?> c = o.getClass(); c != null; c = c.getSuperclass())
                try { Field f = c.getDeclaredField(n); f.setAccessible(true); Object v = f.get(o); if (v != null) return v; } catch (NoSuchFieldException x) { /* next */ }
        return null;
    }

    // ---- consume queues ---------------------------------------------------------------------------------------------
    @SuppressWarnings("unchecked")
    static Object queues(Object ms) throws Exception {
        Map<String, Object> r = new TreeMap<>();
        Map<String, Map<Integer, Object>> table = five ? (Map<String, Map<Integer, Object>>) call(call(ms, "getQueueStore"), "getConsumeQueueTable")
            : (Map<String, Map<Integer, Object>>) call(ms, "getConsumeQueueTable");
        for (Map.Entry<String, Map<Integer, Object>> t : table.entrySet()) {
            Map<String, Object> qs = new LinkedHashMap<>();
            for (Map.Entry<Integer, Object> q : new TreeMap<>(t.getValue()).entrySet()) qs.put("" + q.getKey(), queue(ms, t.getKey(), q.getKey(), q.getValue()));
            r.put(t.getKey(), qs);
        }
        return r;
    }

    static Object queue(Object ms, String topic, int id, Object cq) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>();
        long min = (Long) ms.getClass().getMethod("getMinOffsetInQueue", String.class, int.class).invoke(ms, topic, id);
        long max = (Long) ms.getClass().getMethod("getMaxOffsetInQueue", String.class, int.class).invoke(ms, topic, id);
        r.put("min", min);
        r.put("max", max);
        r.put("kind", cq.getClass().getSimpleName());
        List<Object> entries = new ArrayList<>();
        if (five) {
            for (long at = min; at < max && entries.size() < 100000; ) { // an iterator ends with its file
                Iterator<?> it = (Iterator<?>) cq.getClass().getMethod("iterateFrom", long.class).invoke(cq, at);
                if (it == null || !it.hasNext()) break;
                while (it.hasNext()) {
                    Object u = it.next();
                    Map<String, Object> e = new LinkedHashMap<>();
                    for (String p : new String[]{"QueueOffset", "Pos", "Size", "TagsCode", "BatchNum", "CompactedOffset"}) e.put(Character.toLowerCase(p.charAt(0)) + p.substring(1), call(u, "get" + p));
                    Object ext = call(u, "getCqExtUnit");
                    if (ext != null) {
                        Map<String, Object> x = new LinkedHashMap<>();
                        x.put("size", call(ext, "getSize")); x.put("tagsCode", call(ext, "getTagsCode")); x.put("msgStoreTime", call(ext, "getMsgStoreTime"));
                        byte[] bits = (byte[]) call(ext, "getFilterBitMap"); x.put("filterBitMap", bits == null ? null : hex(bits));
                        e.put("ext", x);
                    }
                    entries.add(e);
                    at = (Long) call(u, "getQueueOffset") + Math.max(1, ((Number) call(u, "getBatchNum")).longValue());
                }
                if (it instanceof AutoCloseable) ((AutoCloseable) it).close(); else call(it, "release");
            }
        } else {
            for (long at = min; at < max; ) {
                Object slice = cq.getClass().getMethod("getIndexBuffer", long.class).invoke(cq, at);
                if (slice == null) break;
                ByteBuffer b = (ByteBuffer) call(slice, "getByteBuffer");
                int n = (Integer) call(slice, "getSize") / 20;
                for (int i = 0; i < n; i++) {
                    Map<String, Object> e = new LinkedHashMap<>();
                    e.put("queueOffset", at + i); e.put("pos", b.getLong()); e.put("size", b.getInt()); e.put("tagsCode", b.getLong());
                    entries.add(e);
                }
                call(slice, "release");
                at += n;
                if (n == 0) break;
            }
        }
        r.put("entries", entries);
        // the same through the pull path
        Method get = Arrays.stream(ms.getClass().getMethods()).filter(x -> x.getName().equals("getMessage") && x.getParameterCount() == 6).findFirst().get();
        List<Object> read = new ArrayList<>(), statuses = new ArrayList<>();
        long at = min;
        for (int i = 0; i < 100000; i++) {
            Object res = get.invoke(ms, "ORACLE_GROUP", topic, id, at, 32, null);
            if (res == null) { statuses.add("null"); break; }
            String status = String.valueOf(call(res, "getStatus"));
            long next = (Long) call(res, "getNextBeginOffset");
            for (Object b : (List<?>) call(res, "getMessageBufferList")) {
                ByteBuffer bb = (ByteBuffer) b;
                read.add(bb.getLong(bb.position() + 28));
            }
            call(res, "release");
            if (statuses.isEmpty() || !statuses.get(statuses.size() - 1).equals(status)) statuses.add(status);
            if (!status.equals("FOUND") && next <= at) break;
            if (next == at) break;
            at = next;
        }
        r.put("readStatuses", statuses);
        r.put("readPhysicalOffsets", read);
        r.put("readTo", at);
        return r;
    }

    // ---- index, timer, binary files ---------------------------------------------------------------------------------
    static Object index(Object ms, List<String> keys) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>();
        for (String k : keys) {
            String[] tk = k.split("=", 2);
            Object res = ms.getClass().getMethod("queryMessage", String.class, String.class, int.class, long.class, long.class).invoke(ms, tk[0], tk[1], 64, 0L, Long.MAX_VALUE);
            List<Object> offsets = new ArrayList<>();
            for (Object b : (List<?>) call(res, "getMessageBufferList")) { ByteBuffer bb = (ByteBuffer) b; offsets.add(bb.getLong(bb.position() + 28)); }
            Map<String, Object> one = new LinkedHashMap<>();
            one.put("physicalOffsets", offsets);
            one.put("indexLastUpdateTimestamp", call(res, "getIndexLastUpdateTimestamp"));
            one.put("indexLastUpdatePhyoffset", call(res, "getIndexLastUpdatePhyoffset"));
            r.put(k, one);
        }
        return r;
    }

    static Object timer(Path root, Object storeConfig) throws Exception {
        Path wheel = root.resolve("timerwheel");
        if (!Files.exists(wheel)) return null;
        int precision = (Integer) call(storeConfig, "getTimerPrecisionMs"), size = (Integer) call(storeConfig, "getMappedFileSizeTimerLog");
        Map<String, Object> r = new LinkedHashMap<>();
        byte[] raw = Files.readAllBytes(wheel);
        Class<?> wheelClass = Class.forName(ROOT + "store.timer.TimerWheel"), logClass = Class.forName(ROOT + "store.timer.TimerLog");
        Object w = wheelClass.getConstructor(String.class, int.class, int.class).newInstance(wheel.toString(), raw.length / 64, precision);
        Object log = logClass.getConstructor(String.class, int.class).newInstance(root.resolve("timerlog").toString(), size);
        call(log, "load");
        List<Object> slots = new ArrayList<>();
        ByteBuffer all = ByteBuffer.wrap(raw);
        for (int i = 0; i < raw.length / 32; i++) {
            long t = all.getLong(i * 32);
            if (t == 0) continue;
            Object s = wheelClass.getMethod("getSlot", long.class).invoke(w, t * precision);
            Map<String, Object> e = new LinkedHashMap<>();
            e.put("index", i);
            for (String f : new String[]{"timeMs", "firstPos", "lastPos", "num", "magic"}) e.put(f, field(s, f));
            List<Object> units = new ArrayList<>();
            long pos = (Long) e.get("lastPos");
            while (pos >= 0) {
                Object slice = logClass.getMethod("getTimerMessage", long.class).invoke(log, pos);
                if (slice == null) { units.add("missing " + pos); break; }
                ByteBuffer b = (ByteBuffer) call(slice, "getByteBuffer");
                Map<String, Object> u = new LinkedHashMap<>();
                u.put("pos", pos); u.put("size", b.getInt()); long prev = b.getLong(); u.put("prevPos", prev); u.put("magic", b.getInt()); u.put("writeTime", b.getLong()); u.put("delay", b.getInt());
                u.put("physicalOffset", b.getLong()); u.put("recordSize", b.getInt()); u.put("topicHash", b.getInt()); u.put("reserved", b.getLong());
                units.add(u);
                call(slice, "release");
                if (pos == (Long) e.get("firstPos")) break;
                pos = prev;
            }
            e.put("units", units);
            slots.add(e);
        }
        r.put("slots", slots);
        return r;
    }

    static Object binary(Path root) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>();
        for (String f : new String[]{"checkpoint", "config/timercheck", "abort", "lock"}) {
            Path p = root.resolve(f);
            if (!Files.exists(p)) continue;
            byte[] b = Files.readAllBytes(p);
            r.put(f, b.length >= 64 ? hex(Arrays.copyOf(b, 64)) : new String(b, StandardCharsets.UTF_8));
        }
        Path idx = root.resolve("index");
        if (Files.isDirectory(idx)) try (Stream<Path> s = Files.list(idx)) {
            for (Path p : s.sorted().collect(Collectors.toList())) r.put("index/" + p.getFileName() + " header", hex(Arrays.copyOf(Files.readAllBytes(p), 40)));
        }
        return r;
    }

    static Object managers(Object broker) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>();
        for (String g : new String[]{"getTopicConfigManager", "getConsumerOffsetManager", "getSubscriptionGroupManager", "getConsumerFilterManager", "getScheduleMessageService", "getConsumerOrderInfoManager", "getTopicQueueMappingManager"})
            try { Object m = broker.getClass().getMethod(g).invoke(broker); r.put(g.substring(3), m.getClass().getMethod("encode", boolean.class).invoke(m, false)); } catch (NoSuchMethodException x) { /* not in this version */ }
        return r;
    }

    // ---- files ------------------------------------------------------------------------------------------------------
    static Map<String, Object> files(Path root) throws Exception {
        Map<String, Object> r = new TreeMap<>();
        try (Stream<Path> s = Files.walk(root)) { for (Path p : s.filter(Files::isRegularFile).collect(Collectors.toList())) r.put(root.relativize(p).toString(), Files.size(p)); }
        return r;
    }

    static Map<String, String> sums(Path root) throws Exception {
        Map<String, String> r = new TreeMap<>();
        try (Stream<Path> s = Files.walk(root)) { for (Path p : s.filter(Files::isRegularFile).collect(Collectors.toList())) r.put(root.relativize(p).toString(), sha(Files.readAllBytes(p))); }
        return r;
    }

    static List<String> changed(Map<String, String> before, Map<String, String> after) {
        List<String> r = new ArrayList<>();
        for (String k : before.keySet()) if (!after.containsKey(k)) r.add("removed " + k); else if (!after.get(k).equals(before.get(k))) r.add("changed " + k);
        for (String k : after.keySet()) if (!before.containsKey(k)) r.add("created " + k);
        return r;
    }

    static Object json(Path root) throws Exception {
        Map<String, Object> r = new TreeMap<>();
        Path config = root.resolve("config");
        if (Files.isDirectory(config)) try (Stream<Path> s = Files.list(config)) {
            for (Path p : s.filter(Files::isRegularFile).collect(Collectors.toList())) if (!p.getFileName().toString().startsWith("timercheck")) r.put("config/" + p.getFileName(), new String(Files.readAllBytes(p), StandardCharsets.UTF_8));
        }
        Path pc = root.resolve("compaction/position-checkpoint");
        if (Files.exists(pc)) r.put("compaction/position-checkpoint", new String(Files.readAllBytes(pc), StandardCharsets.UTF_8));
        return r;
    }

    // ---- logging ----------------------------------------------------------------------------------------------------
    static void logging(Path work, Path log) throws Exception {
        for (String[] v : new String[][]{{"org.apache.rocketmq.logging.ch.qos.logback", "rmq.logback.configurationFile", "five.xml"}, {"ch.qos.logback", "logback.configurationFile", "four.xml"}}) {
            Path f = work.resolve(v[2]);
            Files.write(f, ("<configuration><appender name=\"F\" class=\"" + v[0] + ".core.FileAppender\"><file>" + log + "</file><encoder><pattern>%-5level %logger - %msg%n</pattern></encoder></appender><root level=\"INFO\"><appender-ref ref=\"F\"/></root></configuration>").getBytes(StandardCharsets.UTF_8));
            System.setProperty(v[1], f.toString());
        }
    }

    static Object warnings(Path log) throws Exception {
        Map<String, Object> r = new LinkedHashMap<>();
        List<String> warn = new ArrayList<>(), recovery = new ArrayList<>();
        String tmp = log.getParent().toString();
        if (Files.exists(log)) for (String l : Files.readAllLines(log, StandardCharsets.UTF_8)) {
            l = l.replace(tmp, "TMP");
            if (l.startsWith("WARN") || l.startsWith("ERROR")) warn.add(l);
            else if (l.contains("current consume queue")) continue;
            else if (l.contains("ecover") || l.contains("last shutdown") || l.contains("load over") || l.contains("truncate")) recovery.add(l);
        }
        r.put("warnings", warn);
        r.put("recovery", recovery);
        return r;
    }

    // ---- small things -----------------------------------------------------------------------------------------------
    static Object make(String name) throws Exception { return Class.forName(ROOT + name).getConstructor().newInstance(); }

    static Object call(Object o, String name) throws Exception {
        Method m = null;
        for (Class<?> c = o.getClass(); c != null && m == null; c = c.getSuperclass()) try { m = c.getDeclaredMethod(name); } catch (NoSuchMethodException x) { /* up */ }
        if (m == null) m = o.getClass().getMethod(name);
        m.setAccessible(true);
        return m.invoke(o);
    }

    static String sha(byte[] b) throws Exception { return hex(MessageDigest.getInstance("SHA-256").digest(b)); }

    static String hex(byte[] b) { StringBuilder s = new StringBuilder(); for (byte x : b) s.append(String.format("%02x", x)); return s.toString(); }

    static void write(StringBuilder b, Object o, int depth) {
        if (o == null || o instanceof Number || o instanceof Boolean) b.append(o);
        else if (o instanceof Map) {
            b.append('{'); boolean first = true;
            for (Map.Entry<?, ?> e : ((Map<?, ?>) o).entrySet()) { if (!first) b.append(','); first = false; line(b, depth < 2 ? depth + 1 : -1); write(b, String.valueOf(e.getKey()), -1); b.append(':'); write(b, e.getValue(), depth >= 0 && depth < 2 ? depth + 1 : -1); }
            b.append('}');
        } else if (o instanceof Collection) {
            b.append('['); boolean first = true;
            for (Object e : (Collection<?>) o) { if (!first) b.append(','); first = false; if (e instanceof Map && depth >= 0) line(b, depth + 1); write(b, e, -1); }
            b.append(']');
        } else {
            b.append('"');
            for (char c : o.toString().toCharArray()) {
                if (c == '"' || c == '\\') b.append('\\').append(c);
                else if (c < 32 || (c >= 0xd800 && c <= 0xdfff)) b.append(String.format("\\u%04x", (int) c));
                else b.append(c);
            }
            b.append('"');
        }
    }

    static void line(StringBuilder b, int depth) { if (depth > 0) { b.append('\n'); for (int i = 0; i < depth; i++) b.append(' '); } }
}
