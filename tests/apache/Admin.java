import java.util.Scanner;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/** mqadmin, for one command a line: a JVM for each of them takes seconds to start. */
public class Admin {
    public static void main(String[] none) {
        for (Scanner lines = new Scanner(System.in); lines.hasNextLine(); ) {
            MQAdminStartup.main0(lines.nextLine().split(" "), null);
        }
    }
}
