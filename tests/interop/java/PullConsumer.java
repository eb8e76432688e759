import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Reads when standard input asks, by the pull consumer ("lite": false) or the lite pull consumer ("lite": true).
 *
 * Argument: {"namesrv", "group", "lite", "subscribe": {topic: expression} (lite), "from" (lite), "set": {property: value}}.
 * Lines of both: {"id", "do": "queues", "topic"}, {"id", "do": "committed", "queue"}. Of the lite one: {"id", "do": "poll", "timeoutMs"},
 * {"id", "do": "commit"}, {"id", "do": "assign", "queues"}, {"id", "do": "seek", "queue", "offset"}. Of the other: {"id", "do": "pull",
 * "queue", "expression", "offset", "most", "wait"}, {"id", "do": "commit", "queue", "offset"}, {"id", "do": "offsets", "queue"},
 * {"id", "do": "search", "queue", "ms"}.
 */
public final class PullConsumer {
    private PullConsumer() {
    }

    public static void main(String[] args) throws Exception {
        JSONObject arguments = Lines.arguments(args);
        if (arguments.getBooleanValue("lite")) {
            lite(arguments);
        } else {
            plain(arguments);
        }
    }

    private static void plain(JSONObject arguments) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer(arguments.getString("group"));
        consumer.setNamesrvAddr(arguments.getString("namesrv"));
        Lines.configure(arguments, consumer);
        consumer.start();
        Lines.serve(ask -> Lines.say(plain(consumer, ask)), consumer::shutdown);
    }

    private static JSONObject plain(DefaultMQPullConsumer consumer, JSONObject ask) throws Exception {
        JSONObject line = Lines.answer(ask.get("id"));
        MessageQueue queue = ask.getJSONObject("queue") == null ? null : Lines.queue(ask.getJSONObject("queue"));
        switch (ask.getString("do")) {
            case "queues":
                return line.fluentPut("queues", Lines.queues(consumer.fetchSubscribeMessageQueues(ask.getString("topic"))));
            case "pull":
                String expression = ask.getString("expression");
                long offset = ask.getLongValue("offset");
                int most = ask.getIntValue("most");
                PullResult result = ask.getBooleanValue("wait")
                    ? consumer.pullBlockIfNotFound(queue, expression, offset, most)
                    : consumer.pull(queue, expression, offset, most);
                return line.fluentPut("status", result.getPullStatus().name())
                    .fluentPut("next", result.getNextBeginOffset())
                    .fluentPut("min", result.getMinOffset())
                    .fluentPut("max", result.getMaxOffset())
                    .fluentPut("messages", messages(result.getMsgFoundList()));
            case "offsets":
                return line.fluentPut("min", consumer.minOffset(queue)).fluentPut("max", consumer.maxOffset(queue));
            case "search":
                return line.fluentPut("offset", consumer.searchOffset(queue, ask.getLongValue("ms")));
            case "commit":
                // The public way keeps it until the queue is registered and a timer runs; this one asks the broker now.
                consumer.getDefaultMQPullConsumerImpl().getOffsetStore().updateConsumeOffsetToBroker(queue, ask.getLongValue("offset"), false);
                return line;
            case "committed":
                return line.fluentPut("offset", consumer.fetchConsumeOffset(queue, true));
            default:
                throw new IllegalArgumentException("unknown command " + ask.getString("do"));
        }
    }

    private static void lite(JSONObject arguments) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(arguments.getString("group"));
        consumer.setNamesrvAddr(arguments.getString("namesrv"));
        boolean first = "first".equals(arguments.getString("from"));
        consumer.setConsumeFromWhere(first ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        Lines.configure(arguments, consumer);
        JSONObject subscribe = arguments.getJSONObject("subscribe");
        if (subscribe != null) {
            for (String topic : subscribe.keySet()) {
                consumer.subscribe(topic, subscribe.getString(topic));
            }
        }
        consumer.start();
        Lines.serve(ask -> Lines.say(lite(consumer, ask)), consumer::shutdown);
    }

    private static JSONObject lite(DefaultLitePullConsumer consumer, JSONObject ask) throws Exception {
        JSONObject line = Lines.answer(ask.get("id"));
        MessageQueue queue = ask.getJSONObject("queue") == null ? null : Lines.queue(ask.getJSONObject("queue"));
        switch (ask.getString("do")) {
            case "queues":
                return line.fluentPut("queues", Lines.queues(consumer.fetchMessageQueues(ask.getString("topic"))));
            case "assign":
                List<MessageQueue> queues = new ArrayList<>();
                JSONArray asked = ask.getJSONArray("queues");
                for (int i = 0; i < asked.size(); i++) {
                    queues.add(Lines.queue(asked.getJSONObject(i)));
                }
                consumer.assign(queues);
                return line;
            case "seek":
                consumer.seek(queue, ask.getLongValue("offset"));
                return line;
            case "poll":
                return line.fluentPut("messages", messages(consumer.poll(ask.getLongValue("timeoutMs"))));
            case "commit":
                consumer.commitSync();
                return line;
            case "committed":
                return line.fluentPut("offset", consumer.committed(queue));
            default:
                throw new IllegalArgumentException("unknown command " + ask.getString("do"));
        }
    }

    private static JSONArray messages(Iterable<MessageExt> found) {
        JSONArray list = new JSONArray();
        if (found != null) {
            for (MessageExt message : found) {
                list.add(Lines.message(message));
            }
        }
        return list;
    }
}
