import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.Properties;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** What the programs share: one JSON object a line, in and out, and the forms of messages and queues in them. */
final class Lines {
    private static final char[] DIGITS = "0123456789abcdef".toCharArray();
    // Standard output belongs to the lines; whatever the client itself prints goes to standard error.
    private static final PrintStream OUT = System.out;

    private Lines() {
    }

    interface Command {
        void run(JSONObject ask) throws Exception;
    }

    /** The program's only argument, after it has been made sure that nobody else writes lines. */
    static JSONObject arguments(String[] args) {
        System.setOut(System.err);
        return JSON.parseObject(args[0]);
    }

    /** Run a command for each line until the input is closed, then close and leave. */
    static void serve(Command command, Runnable close) throws Exception {
        say(new JSONObject().fluentPut("event", "ready"));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JSONObject ask = JSON.parseObject(line);
            try {
                command.run(ask);
            } catch (Throwable error) {
                say(failure(ask.get("id"), error));
            }
        }
        close.run();
        say(new JSONObject().fluentPut("event", "closed"));
        Runtime.getRuntime().halt(0);
    }

    static void say(JSONObject line) {
        String text = line.toString(SerializerFeature.DisableCircularReferenceDetect, SerializerFeature.BrowserCompatible);
        synchronized (OUT) {
            OUT.println(text);
            OUT.flush();
        }
    }

    static JSONObject answer(Object id) {
        return new JSONObject(true).fluentPut("id", id);
    }

    static JSONObject failure(Object id, Throwable error) {
        JSONObject line = answer(id).fluentPut("error", error.getClass().getSimpleName()).fluentPut("text", String.valueOf(error.getMessage()));
        if (error instanceof MQBrokerException) {
            line.put("code", ((MQBrokerException) error).getResponseCode());
        } else if (error instanceof MQClientException) {
            line.put("code", ((MQClientException) error).getResponseCode());
        }
        return line;
    }

    /** Call the setters that "set" names, as the original does with its property files. */
    static void configure(JSONObject arguments, Object client) {
        JSONObject set = arguments.getJSONObject("set");
        Properties properties = new Properties();
        if (set != null) {
            for (Map.Entry<String, Object> each : set.entrySet()) {
                properties.setProperty(each.getKey(), String.valueOf(each.getValue()));
            }
        }
        MixAll.properties2Object(properties, client);
    }

    static JSONObject message(MessageExt message) {
        return new JSONObject(true)
            .fluentPut("event", "message")
            .fluentPut("topic", message.getTopic())
            .fluentPut("tag", message.getTags())
            .fluentPut("keys", message.getKeys())
            .fluentPut("body", hex(message.getBody()))
            .fluentPut("broker", message.getBrokerName())
            .fluentPut("queueId", message.getQueueId())
            .fluentPut("queueOffset", message.getQueueOffset())
            .fluentPut("position", message.getCommitLogOffset())
            .fluentPut("msgId", message.getMsgId())
            .fluentPut("flag", message.getFlag())
            .fluentPut("sysFlag", message.getSysFlag())
            .fluentPut("bornMs", message.getBornTimestamp())
            .fluentPut("storeMs", message.getStoreTimestamp())
            .fluentPut("reconsumeTimes", message.getReconsumeTimes())
            .fluentPut("properties", message.getProperties());
    }

    static JSONArray queues(Iterable<MessageQueue> queues) {
        JSONArray list = new JSONArray();
        for (MessageQueue queue : queues) {
            list.add(new JSONObject(true).fluentPut("topic", queue.getTopic()).fluentPut("broker", queue.getBrokerName()).fluentPut("id", queue.getQueueId()));
        }
        return list;
    }

    static MessageQueue queue(JSONObject queue) {
        return new MessageQueue(queue.getString("topic"), queue.getString("broker"), queue.getIntValue("id"));
    }

    static String hex(byte[] bytes) {
        if (bytes == null) {
            return "";
        }
        char[] text = new char[bytes.length * 2];
        for (int i = 0; i < bytes.length; i++) {
            text[2 * i] = DIGITS[bytes[i] >> 4 & 15];
            text[2 * i + 1] = DIGITS[bytes[i] & 15];
        }
        return new String(text);
    }

    static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
