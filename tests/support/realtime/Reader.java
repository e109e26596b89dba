/*
 * What a monitoring tool does over JMX: Reader HOST PORT plain|tls LOGINS WHAT ..., where LOGINS are USER/PASSWORD with
 * tabs between, - for none. For each of them each WHAT is answered with a line: names=PATTERN, NAME!ATTRIBUTE, all=NAME
 * (attributes), info=NAME (their number), query, listen, set=NAME, invoke=NAME, create, rebind; nested, printed and wide
 * are requests that would keep a server busy. Compiled by Janino, as Bridge.java.
 */

import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.UnicastRemoteObject;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.Vector;
import javax.management.Attribute;
import javax.management.BadAttributeValueExpException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.MBeanServerDelegate;
import javax.management.Notification;
import javax.management.NotificationFilterSupport;
import javax.management.NotificationListener;
import javax.management.ObjectName;
import javax.management.Query;
import javax.management.remote.JMXConnector;
import javax.management.remote.rmi.RMIConnector;
import javax.management.remote.rmi.RMIServer;
import javax.rmi.ssl.SslRMIClientSocketFactory;

public class Reader {
    public static class Listener implements NotificationListener {
        public void handleNotification(Notification notification, Object handback) {
        }
    }

    public static class Other implements java.rmi.Remote {
    }

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[1]);
        Registry registry = words[2].equals("tls")
            ? LocateRegistry.getRegistry(words[0], port, new SslRMIClientSocketFactory())
            : LocateRegistry.getRegistry(words[0], port);
        String[] logins = words[3].split("\t");
        for (int i = 0; i < logins.length; i++) {
            Map environment = new HashMap();
            if (!logins[i].equals("-")) environment.put(JMXConnector.CREDENTIALS, logins[i].split("/", 2));
            RMIConnector connector = new RMIConnector((RMIServer) registry.lookup("jmxrmi"), environment);
            try {
                connector.connect();
                MBeanServerConnection server = connector.getMBeanServerConnection();
                for (int j = 4; j < words.length; j++) System.out.println(answer(words[j], server, registry));
            } catch (Exception error) {
                System.out.println("refused " + error);
            }
        }
        System.exit(0);
    }

    static String[] names(MBeanServerConnection server, ObjectName name) throws Exception {
        MBeanAttributeInfo[] infos = server.getMBeanInfo(name).getAttributes();
        String[] names = new String[infos.length];
        for (int i = 0; i < names.length; i++) names[i] = infos[i].getName();
        return names;
    }

    /** The server unpacks it before it looks whether the listener is one. */
    static String hand(MBeanServerConnection server, Object thing) throws Exception {
        ObjectName name = MBeanServerDelegate.DELEGATE_NAME;
        server.addNotificationListener(name, name, null, thing);
        return "taken";
    }

    /** Sets of sets: each level is hashed once for each way that leads there. */
    static Set nested(int depth) {
        Set[] level = {new HashSet(), new HashSet()};
        Set top = level[0];
        for (int i = 0; i < depth; i++) {
            Set[] next = {new HashSet(), new HashSet()};
            next[1].add("other");
            for (int j = 0; j < 2; j++)
                for (int k = 0; k < 2; k++) level[j].add(next[k]);
            level = next;
        }
        return top;
    }

    static String answer(String what, MBeanServerConnection server, Registry registry) {
        try {
            if (what.startsWith("names="))
                return new TreeSet(server.queryNames(new ObjectName(what.substring(6)), null)).toString();
            if (what.equals("create")) {
                server.createMBean("javax.management.timer.Timer", new ObjectName("test:type=Timer"));
                return "created";
            }
            if (what.startsWith("set=")) {
                server.setAttribute(new ObjectName(what.substring(4)), new Attribute("connections", Double.valueOf(1)));
                return "set";
            }
            if (what.equals("listen")) {
                server.addNotificationListener(MBeanServerDelegate.DELEGATE_NAME, new Listener(), null, null);
                NotificationFilterSupport filter = new NotificationFilterSupport();
                filter.enableType("JMX.mbean");
                server.addNotificationListener(MBeanServerDelegate.DELEGATE_NAME, new Listener(), filter, null);
                return "listening";
            }
            if (what.startsWith("all=")) {
                ObjectName name = new ObjectName(what.substring(4));
                Set found = new TreeSet();
                Iterator each = server.getAttributes(name, names(server, name)).iterator();
                while (each.hasNext()) found.add(((Attribute) each.next()).getName());
                return found.toString();
            }
            if (what.startsWith("info=")) return "" + names(server, new ObjectName(what.substring(5))).length;
            if (what.equals("query"))
                return server.queryNames(null, Query.and(
                    Query.gt(Query.attr("connections"), Query.value(2)),
                    Query.not(Query.match(Query.attr("error"), Query.value("no*")))
                )).toString();
            if (what.startsWith("invoke="))
                return "" + server.invoke(new ObjectName(what.substring(7)), "reset", new Object[] {"now"},
                    new String[] {"java.lang.String"});
            if (what.equals("nested")) return hand(server, nested(14));
            if (what.equals("printed")) return hand(server, new BadAttributeValueExpException(new Vector()));
            if (what.equals("wide")) return hand(server, new String[5000]);
            if (what.equals("rebind")) {
                registry.rebind("jmxrmi", UnicastRemoteObject.exportObject(new Other(), 0));
                return "bound";
            }
            int at = what.lastIndexOf('!');
            return "" + server.getAttribute(new ObjectName(what.substring(0, at)), what.substring(at + 1));
        } catch (Exception error) {
            return error.getClass().getSimpleName() + " " + ("" + error.getMessage()).replace('\n', ' ');
        }
    }
}
