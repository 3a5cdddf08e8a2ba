import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Scanner;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Members of groups that share their queues by one strategy each: of every strategy, one per instance.
 *
 * <pre>Members NAMESRV INSTANCE,INSTANCE STRATEGY...</pre>
 *
 * Group and topic of a strategy are both called allocate-STRATEGY. "leave INSTANCE" on standard input takes that one out
 * of all groups; every other line ends the process. Besides what it consumes and owns, it prints what the strategy of
 * the Java client makes of the members and queues that it was asked about last, for every member.
 */
@SuppressWarnings("deprecation") // what tells the owned queues is not part of the public client
public class Members {
    static final Map<String, List<DefaultMQPushConsumer>> instances = new LinkedHashMap<>();

    public static void main(String[] args) throws Exception {
        for (String instance : args[1].split(",")) {
            List<DefaultMQPushConsumer> consumers = new ArrayList<>();
            for (String strategy : Arrays.asList(args).subList(2, args.length)) {
                consumers.add(start(args[0], instance, strategy));
            }
            synchronized (instances) {
                instances.put(instance, consumers);
            }
        }
        Thread reporter = new Thread(Members::report);
        reporter.setDaemon(true);
        reporter.start();
        Peer.event("\"event\":\"started\"");
        Scanner commands = new Scanner(System.in, "UTF-8");
        while (commands.hasNext() && commands.next().equals("leave")) {
            leave(commands.next());
        }
        for (String instance : new ArrayList<>(instances.keySet())) {
            leave(instance);
        }
        Peer.event("\"event\":\"stopped\"");
        System.exit(0);
    }

    static DefaultMQPushConsumer start(String namesrv, String instance, String strategy) throws Exception {
        String name = "allocate-" + strategy;
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(name);
        consumer.setNamesrvAddr(namesrv);
        // Their ids lie between those of others on this machine.
        consumer.setClientIP("127.0.0.1");
        consumer.setInstanceName(instance);
        consumer.setPollNameServerInterval(Integer.getInteger("peer.route.interval", 30_000));
        consumer.setConsumeThreadMin(1);
        consumer.setConsumeThreadMax(1);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAllocateMessageQueueStrategy(new Told(name, strategy, instance));
        consumer.subscribe(name, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                Peer.event("\"event\":\"given\",\"group\":\"%s\",\"client_id\":\"%s\",\"body\":\"%s\",\"queue\":%d",
                    name, consumer.buildMQClientId(), new String(message.getBody(), StandardCharsets.UTF_8), message.getQueueId());
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        return consumer;
    }

    static void leave(String instance) {
        List<DefaultMQPushConsumer> consumers;
        synchronized (instances) {
            consumers = instances.remove(instance);
        }
        for (DefaultMQPushConsumer consumer : consumers) {
            consumer.shutdown();
        }
        Peer.event("\"event\":\"left\",\"instance\":\"%s\"", instance);
    }

    /** What each member owns, when that has changed. */
    static void report() {
        Map<String, TreeSet<Integer>> told = new HashMap<>();
        while (true) {
            List<DefaultMQPushConsumer> consumers = new ArrayList<>();
            synchronized (instances) {
                instances.values().forEach(consumers::addAll);
            }
            for (DefaultMQPushConsumer consumer : consumers) {
                String group = consumer.getConsumerGroup(), id = consumer.buildMQClientId();
                TreeSet<Integer> ids = Peer.owned(consumer, group);
                if (!ids.equals(told.put(group + id, ids))) {
                    Peer.event("\"event\":\"owned\",\"group\":\"%s\",\"client_id\":\"%s\",\"ids\":%s", group, id, ids);
                }
            }
            try {
                Thread.sleep(50);
            } catch (InterruptedException e) {
                return;
            }
        }
    }

    /** A strategy of the Java client that tells what it says. */
    static class Told implements AllocateMessageQueueStrategy {
        final String topic, strategy, instance;
        final Map<String, String> told = new ConcurrentHashMap<>();

        Told(String topic, String strategy, String instance) {
            this.topic = topic;
            this.strategy = strategy;
            this.instance = instance;
        }

        @Override
        public List<MessageQueue> allocate(String group, String id, List<MessageQueue> queues, List<String> members) {
            AllocateMessageQueueStrategy inner = inner(queues);
            if (!queues.isEmpty() && queues.get(0).getTopic().equals(topic)) {
                tell(inner, group, id, queues, members);
            }
            return inner.allocate(group, id, queues, members);
        }

        void tell(AllocateMessageQueueStrategy inner, String group, String id, List<MessageQueue> queues, List<String> members) {
            TreeMap<String, TreeSet<Integer>> shares = new TreeMap<>();
            for (String member : members) {
                TreeSet<Integer> ids = new TreeSet<>();
                // What others are configured to have, nobody knows.
                if (!strategy.equals("config") || member.equals(id)) {
                    for (MessageQueue queue : inner.allocate(group, member, queues, members)) {
                        ids.add(queue.getQueueId());
                    }
                }
                shares.put(member, ids);
            }
            StringBuilder text = new StringBuilder();
            shares.forEach((member, ids) -> text.append(text.length() == 0 ? "" : ",").append("\"" + member + "\":" + ids));
            if (!text.toString().equals(told.put("last", text.toString()))) {
                Peer.event("\"event\":\"allocation\",\"group\":\"%s\",\"client_id\":\"%s\",\"shares\":{%s}", group, id, text);
            }
        }

        AllocateMessageQueueStrategy inner(List<MessageQueue> queues) {
            switch (strategy) {
                case "averagely":
                    return new AllocateMessageQueueAveragely();
                case "circle":
                    return new AllocateMessageQueueAveragelyByCircle();
                case "hash":
                    return new AllocateMessageQueueConsistentHash();
                case "room":
                    AllocateMessageQueueByMachineRoom byRoom = new AllocateMessageQueueByMachineRoom();
                    byRoom.setConsumeridcs(new TreeSet<>(Arrays.asList("room-a", "room-b")));
                    return byRoom;
                case "nearby":
                    return new AllocateMachineRoomNearby(new AllocateMessageQueueAveragely(), new Rooms());
                case "config":
                    AllocateMessageQueueByConfig byConfig = new AllocateMessageQueueByConfig();
                    byConfig.setMessageQueueList(configured(queues));
                    return byConfig;
                default:
                    throw new IllegalArgumentException(strategy);
            }
        }

        /** The queues of the topic with the ids of the property peer.configured.INSTANCE. */
        List<MessageQueue> configured(List<MessageQueue> queues) {
            List<MessageQueue> list = new ArrayList<>();
            for (String id : System.getProperty("peer.configured." + instance).split(",")) {
                list.add(new MessageQueue(topic, queues.get(0).getBrokerName(), Integer.parseInt(id)));
            }
            return list;
        }

        @Override
        public String getName() {
            return "told-" + strategy;
        }
    }

    /** A queue is in one of three rooms, by its id; a member in that of its last digit. */
    static class Rooms implements AllocateMachineRoomNearby.MachineRoomResolver {
        @Override
        public String brokerDeployIn(MessageQueue queue) {
            return Integer.toString(queue.getQueueId() % 3);
        }

        @Override
        public String consumerDeployIn(String id) {
            return id.substring(id.length() - 1);
        }
    }
}
