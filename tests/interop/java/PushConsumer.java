import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.util.List;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Says each message that it gets, and its queues whenever they change.
 *
 * Argument: {"namesrv", "group", "subscribe": {topic: expression}, "from": "first" or "last", "ordered": boolean, "failTimes": how often each
 * message is refused before it is taken, "set": {property: value}}.
 */
public final class PushConsumer {
    private PushConsumer() {
    }

    public static void main(String[] args) throws Exception {
        JSONObject arguments = Lines.arguments(args);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(arguments.getString("group"));
        consumer.setNamesrvAddr(arguments.getString("namesrv"));
        boolean first = "first".equals(arguments.getString("from"));
        consumer.setConsumeFromWhere(first ? ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET : ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
        Lines.configure(arguments, consumer);
        JSONObject subscribe = arguments.getJSONObject("subscribe");
        for (String topic : subscribe.keySet()) {
            consumer.subscribe(topic, subscribe.getString(topic));
        }
        int failTimes = arguments.getIntValue("failTimes");
        if (arguments.getBooleanValue("ordered")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                takes(messages, failTimes) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                takes(messages, failTimes) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        consumer.start();
        watch(consumer);
        Lines.serve(ask -> Lines.say(Lines.answer(ask.get("id")).fluentPut("queues", queues(consumer))), consumer::shutdown);
    }

    private static boolean takes(List<MessageExt> messages, int failTimes) {
        boolean takes = true;
        for (MessageExt message : messages) {
            boolean taken = message.getReconsumeTimes() >= failTimes;
            takes &= taken;
            Lines.say(Lines.message(message).fluentPut("taken", taken));
        }
        return takes;
    }

    private static JSONArray queues(DefaultMQPushConsumer consumer) {
        return Lines.queues(new TreeSet<MessageQueue>(
            consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()));
    }

    /** The client tells nobody of 4.x that its queues changed, so they are compared ten times a second. */
    private static void watch(DefaultMQPushConsumer consumer) {
        Thread watcher = new Thread(() -> {
            JSONArray before = new JSONArray();
            while (true) {
                JSONArray now = queues(consumer);
                if (!now.equals(before)) {
                    Lines.say(new JSONObject(true).fluentPut("event", "queues").fluentPut("queues", now));
                    before = now;
                }
                try {
                    Thread.sleep(100);
                } catch (InterruptedException ended) {
                    return;
                }
            }
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
