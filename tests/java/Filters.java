import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import org.apache.rocketmq.filter.expression.*;
import org.apache.rocketmq.filter.parser.SelectorParser;

/**
 * What the parser and the expressions of RocketMQ make of filters: wrote src/broker/sql/tests/apache-5.5.0.tsv.
 *
 * Reads a file like that one, without the outcomes or with old ones, and prints it with the outcomes. Needs the jars of
 * the version in question: java -cp "target/apache/5.5.0/lib/*" tests/java/Filters.java FILE
 */
public class Filters {
    public static void main(String[] args) throws Exception {
        List<Map<String, String>> messages = new ArrayList<>();
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        for (String line : Files.readAllLines(Paths.get(args[0]), StandardCharsets.UTF_8)) {
            if (line.startsWith("message")) {
                messages.add(message(line));
                out.println(line);
            } else if (!line.isEmpty() && !line.startsWith("#")) {
                String filter = line.split("\t")[0];
                out.println(filter + "\t" + outcomes(filter, messages));
            } else {
                out.println(line);
            }
        }
    }

    static Map<String, String> message(String line) {
        Map<String, String> properties = new HashMap<>();
        String[] parts = line.split("\t");
        for (int i = 1; i < parts.length; i++) {
            String[] pair = parts[i].split("=", 2);
            properties.put(pair[0], pair[1]);
        }
        return properties;
    }

    /** A letter for each message: true, false, unknown, or an exception; or that the filter is refused. */
    static String outcomes(String filter, List<Map<String, String>> messages) {
        BooleanExpression expression;
        try {
            expression = SelectorParser.parse(filter);
        } catch (MQFilterException refused) {
            return "refused";
        }
        StringBuilder letters = new StringBuilder();
        for (Map<String, String> properties : messages) {
            try {
                Object value = expression.evaluate(new EvaluationContext() {
                    public Object get(String name) {
                        return properties.get(name);
                    }

                    public Map<String, Object> keyValues() {
                        return new HashMap<>(properties);
                    }
                });
                letters.append(value == null ? 'u' : value == Boolean.TRUE ? 't' : value == Boolean.FALSE ? 'f' : '?');
            } catch (Exception exception) {
                letters.append('x');
            }
        }
        return letters.toString();
    }
}
