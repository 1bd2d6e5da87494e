import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import org.eclipse.jetty.server.Connector;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import software.amazon.dynamodb.services.local.main.ServerRunner;

/**
 * Starts DynamoDB Local on loopback alone, where its own command listens on every address. Its tables
 * are the same for each access key.
 */
class LoopbackDynamoDb {
    /** The file that is written with the port once the server listens. */
    public static void main(String[] args) throws Exception {
        var proxy = ServerRunner.createServerFromCommandLineArgs(
                new String[] {"-inMemory", "-sharedDb", "-disableTelemetry", "-port", "8000"});
        Field field = proxy.getClass().getDeclaredField("server");
        field.setAccessible(true);
        ServerConnector listening = null;
        for (Connector connector : ((Server) field.get(proxy)).getConnectors()) {
            listening = (ServerConnector) connector;
            listening.setHost("127.0.0.1");
            listening.setPort(0);
        }
        proxy.start();
        Files.writeString(Path.of(args[0]), Integer.toString(listening.getLocalPort()));
        proxy.join();
    }
}
