import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends what standard input asks for, and says what came of each.
 *
 * Argument: {"namesrv", "group", "set": {property: value}}. A line: {"id", "mode", "messages": [{"topic", "body" as hex, "tag", "keys",
 * "flag", "properties"}], "queue": {"topic", "broker", "id"}, "select": index}. Modes: sync, async, oneway, batch; with "queue" to that
 * queue, with "select" through a selector that takes the queue at that index.
 */
public final class Producer {
    private final DefaultMQProducer producer;

    private Producer(DefaultMQProducer producer) {
        this.producer = producer;
    }

    public static void main(String[] args) throws Exception {
        JSONObject arguments = Lines.arguments(args);
        DefaultMQProducer producer = new DefaultMQProducer(arguments.getString("group"));
        producer.setNamesrvAddr(arguments.getString("namesrv"));
        Lines.configure(arguments, producer);
        producer.start();
        Lines.serve(new Producer(producer)::send, producer::shutdown);
    }

    private void send(JSONObject ask) throws Exception {
        Object id = ask.get("id");
        if ("queues".equals(ask.getString("mode"))) {
            Lines.say(Lines.answer(id).fluentPut("queues", Lines.queues(producer.fetchPublishMessageQueues(ask.getString("topic")))));
            return;
        }
        List<Message> messages = new ArrayList<>();
        JSONArray asked = ask.getJSONArray("messages");
        for (int i = 0; i < asked.size(); i++) {
            messages.add(message(asked.getJSONObject(i)));
        }
        Message first = messages.get(0);
        JSONObject queue = ask.getJSONObject("queue");
        Integer select = ask.getInteger("select");
        switch (ask.getString("mode")) {
            case "sync":
                if (queue != null) {
                    Lines.say(result(id, producer.send(first, Lines.queue(queue))));
                } else if (select != null) {
                    Lines.say(result(id, producer.send(first, (queues, message, index) -> queues.get((Integer) index), select)));
                } else {
                    Lines.say(result(id, producer.send(first)));
                }
                break;
            case "async":
                SendCallback callback = callback(id);
                if (queue != null) {
                    producer.send(first, Lines.queue(queue), callback);
                } else if (select != null) {
                    producer.send(first, (queues, message, index) -> queues.get((Integer) index), select, callback);
                } else {
                    producer.send(first, callback);
                }
                break;
            case "oneway":
                if (queue != null) {
                    producer.sendOneway(first, Lines.queue(queue));
                } else {
                    producer.sendOneway(first);
                }
                Lines.say(Lines.answer(id).fluentPut("status", "SENT"));
                break;
            case "batch":
                Lines.say(result(id, queue == null ? producer.send(messages) : producer.send(messages, Lines.queue(queue))));
                break;
            default:
                throw new IllegalArgumentException("unknown mode " + ask.getString("mode"));
        }
    }

    private static Message message(JSONObject asked) {
        Message message = new Message(asked.getString("topic"), Lines.bytes(asked.getString("body")));
        if (asked.getString("tag") != null) {
            message.setTags(asked.getString("tag"));
        }
        if (asked.getString("keys") != null) {
            message.setKeys(asked.getString("keys"));
        }
        message.setFlag(asked.getIntValue("flag"));
        JSONObject properties = asked.getJSONObject("properties");
        if (properties != null) {
            for (Map.Entry<String, Object> each : properties.entrySet()) {
                message.putUserProperty(each.getKey(), String.valueOf(each.getValue()));
            }
        }
        return message;
    }

    private static SendCallback callback(Object id) {
        return new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                Lines.say(result(id, result));
            }

            @Override
            public void onException(Throwable error) {
                Lines.say(Lines.failure(id, error));
            }
        };
    }

    private static JSONObject result(Object id, SendResult result) {
        return Lines.answer(id)
            .fluentPut("status", result.getSendStatus().name())
            .fluentPut("msgId", result.getMsgId())
            .fluentPut("offsetMsgId", result.getOffsetMsgId())
            .fluentPut("broker", result.getMessageQueue().getBrokerName())
            .fluentPut("queueId", result.getMessageQueue().getQueueId())
            .fluentPut("queueOffset", result.getQueueOffset())
            .fluentPut("transactionId", result.getTransactionId())
            .fluentPut("regionId", result.getRegionId());
    }
}
