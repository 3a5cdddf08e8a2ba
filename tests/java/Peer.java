import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * The official Java client as a peer of the tests. What it does stands on its standard output, one JSON object a line,
 * with the time in milliseconds; everything else that a library prints there is not JSON and is skipped by the reader.
 *
 * <pre>
 * Peer produce NAMESRV TOPIC FIRST COUNT       sends the bodies FIRST, FIRST+1, …; every tenth in a batch of ten,
 *                                              every hundredth is long enough to be compressed
 * Peer consume NAMESRV GROUP TOPIC             a push consumer, until a line comes on standard input, or its end
 * Peer consume-in-order NAMESRV GROUP TOPIC    the same, orderly
 * Peer poll NAMESRV GROUP TOPIC                a lite pull consumer, which commits what each poll has brought
 * </pre>
 *
 * A body is a number, and then words. "7 fails 2" is not accepted before its third delivery.
 */
@SuppressWarnings("deprecation") // what tells the owned queues is not part of the public client
public class Peer {
    static volatile boolean stopping;

    public static void main(String[] args) throws Exception {
        if (args.length == 5 && args[0].equals("produce")) {
            produce(args[1], args[2], Long.parseLong(args[3]), Integer.parseInt(args[4]));
        } else if (args.length == 4 && args[0].equals("consume")) {
            consume(args[1], args[2], args[3], false);
        } else if (args.length == 4 && args[0].equals("consume-in-order")) {
            consume(args[1], args[2], args[3], true);
        } else if (args.length == 4 && args[0].equals("poll")) {
            poll(args[1], args[2], args[3]);
        } else {
            System.err.println("usage: Peer produce NAMESRV TOPIC FIRST COUNT | Peer consume[-in-order]|poll NAMESRV GROUP TOPIC");
            System.exit(2);
        }
        System.exit(0);
    }

    static void produce(String namesrv, String topic, long first, int count) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("peer-producer");
        producer.setNamesrvAddr(namesrv);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        long sent = 0;
        List<Message> batch = new ArrayList<>();
        for (long number = first; number < first + count; number++) {
            Message message = message(topic, number);
            if (number % 100 >= 10 && number % 100 < 20) {
                batch.add(message);
            } else if (producer.send(message).getSendStatus() == SendStatus.SEND_OK) {
                sent++;
            }
            if (batch.size() == 10 || !batch.isEmpty() && number == first + count - 1) {
                sent += producer.send(batch).getSendStatus() == SendStatus.SEND_OK ? batch.size() : 0;
                batch = new ArrayList<>();
            }
        }
        event("\"event\":\"produced\",\"sent\":%d", sent);
        producer.shutdown();
    }

    static Message message(String topic, long number) {
        String body = Long.toString(number);
        if (number % 100 == 0) {
            body += " long" + new String(new char[5000]).replace('\0', '.');
        }
        return new Message(topic, "peer", "key-" + number, body.getBytes(StandardCharsets.UTF_8));
    }

    static void consume(String namesrv, String group, String topic, boolean inOrder) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(Integer.getInteger("peer.route.interval", 30_000));
        if (Boolean.getBoolean("peer.broadcasting")) {
            // Without its name: it is in another package in each of the versions.
            consumer.setMessageModel(Enum.valueOf(consumer.getMessageModel().getDeclaringClass(), "BROADCASTING"));
        }
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.subscribe(topic, "*");
        if (inOrder) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) ->
                accept(messages) ? ConsumeOrderlyStatus.SUCCESS : ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT);
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) ->
                accept(messages) ? ConsumeConcurrentlyStatus.CONSUME_SUCCESS : ConsumeConcurrentlyStatus.RECONSUME_LATER);
        }
        event("\"event\":\"start\"");
        consumer.start();
        event("\"event\":\"started\",\"client_id\":\"%s\"", consumer.buildMQClientId());
        ScheduledExecutorService reporter = Executors.newSingleThreadScheduledExecutor();
        reporter.scheduleAtFixedRate(() -> event("\"event\":\"queues\",\"ids\":%s", owned(consumer, topic)), 0, 200, TimeUnit.MILLISECONDS);
        System.in.read();
        event("\"event\":\"stop\"");
        consumer.shutdown();
        reporter.shutdownNow();
        event("\"event\":\"stopped\"");
    }

    static void poll(String namesrv, String group, String topic) throws Exception {
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(group);
        consumer.setNamesrvAddr(namesrv);
        consumer.setPollNameServerInterval(Integer.getInteger("peer.route.interval", 30_000));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.subscribe(topic, "*");
        consumer.start();
        event("\"event\":\"started\",\"client_id\":\"%s\"", consumer.buildMQClientId());
        Thread poller = new Thread(() -> {
            while (!stopping) {
                accept(consumer.poll(100));
                consumer.commitSync();
            }
        });
        ScheduledExecutorService reporter = Executors.newSingleThreadScheduledExecutor();
        reporter.scheduleAtFixedRate(() -> event("\"event\":\"queues\",\"ids\":%s", assigned(consumer)), 0, 200, TimeUnit.MILLISECONDS);
        poller.start();
        System.in.read();
        stopping = true;
        poller.join();
        consumer.shutdown();
        reporter.shutdownNow();
        event("\"event\":\"stopped\"");
    }

    static TreeSet<Integer> assigned(DefaultLitePullConsumer consumer) {
        TreeSet<Integer> ids = new TreeSet<>();
        try {
            for (MessageQueue queue : consumer.assignment()) {
                ids.add(queue.getQueueId());
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
        return ids;
    }

    static boolean accept(List<MessageExt> messages) {
        boolean accepted = true;
        for (MessageExt message : messages) {
            String body = new String(message.getBody(), StandardCharsets.UTF_8);
            accepted &= message.getReconsumeTimes() >= failures(body);
            event("\"event\":\"message\",\"body\":\"%s\",\"queue\":%d,\"offset\":%d,\"reconsumed\":%d",
                body.length() > 40 ? body.substring(0, 40) : body, message.getQueueId(), message.getQueueOffset(),
                message.getReconsumeTimes());
        }
        return accepted;
    }

    /** How often a message with this body is not accepted. */
    static int failures(String body) {
        String[] words = body.split(" ");
        return words.length == 3 && words[1].equals("fails") ? Integer.parseInt(words[2]) : 0;
    }

    /** The ids of the topic's queues that are this member's, in order. */
    static TreeSet<Integer> owned(DefaultMQPushConsumer consumer, String topic) {
        TreeSet<Integer> ids = new TreeSet<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl().getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(topic)) {
                ids.add(queue.getQueueId());
            }
        }
        return ids;
    }

    static synchronized void event(String rest, Object... values) {
        System.out.println("{\"t_ms\":" + System.currentTimeMillis() + "," + String.format(rest, values) + "}");
        System.out.flush();
    }
}
