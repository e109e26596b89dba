/*
 * Serves what comes on the standard input as MBeans, to be read only; bridge.py starts and feeds it.
 *
 * Compiled when it starts, in memory, by Janino (which comes with Spark): so there are no lambdas and no type arguments.
 * Lines of words with tabs between them. Settings, then "start"; then snapshots: "bean" NAME, its "number" NAME VALUE
 * and "text" NAME VALUE, the next bean ..., "commit". What a snapshot does not name is gone. It ends with its input.
 */

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketTimeoutException;
import java.rmi.registry.LocateRegistry;
import java.rmi.registry.Registry;
import java.rmi.server.RMIClientSocketFactory;
import java.rmi.server.RMIServerSocketFactory;
import java.security.KeyStore;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import javax.management.Attribute;
import javax.management.AttributeList;
import javax.management.AttributeNotFoundException;
import javax.management.DynamicMBean;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.MBeanServer;
import javax.management.MBeanServerFactory;
import javax.management.ObjectName;
import javax.management.remote.JMXAuthenticator;
import javax.management.remote.JMXPrincipal;
import javax.management.remote.JMXServiceURL;
import javax.management.remote.MBeanServerForwarder;
import javax.management.remote.rmi.RMIConnectorServer;
import javax.management.remote.rmi.RMIJRMPServerImpl;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.rmi.ssl.SslRMIClientSocketFactory;
import javax.security.auth.Subject;

public class Bridge {
    /** What a reader may ask for; of an MBeanServer that is all but what creates, changes, invokes and loads. */
    static final Set READING = new HashSet(Arrays.asList(new String[] {
        "getAttribute", "getAttributes", "getMBeanInfo", "getMBeanCount", "queryNames", "queryMBeans", "isRegistered",
        "isInstanceOf", "getDefaultDomain", "getDomains", "getObjectInstance", "addNotificationListener",
        "removeNotificationListener", "getClassLoaderFor", "getClassLoader", "getClassLoaderRepository"}));

    /**
     * What readers may send: names, queries, filters of notifications. No collection that hashes what is in it, nor
     * anything that compares or prints it: sets within sets take twice as long for each level.
     */
    static final String FILTER = "maxdepth=8;maxrefs=1000;maxarray=1000;maxbytes=100000;"
        + among("java.lang.", "Object String Number Boolean Byte Character Short Integer Long Float Double")
        + among("java.rmi.", "MarshalledObject dgc.Lease dgc.VMID server.UID server.ObjID")
        + among("javax.management.", "ObjectName Attribute NotificationFilterSupport AttributeChangeNotificationFilter")
        + among("javax.management.", "relation.MBeanServerNotificationFilter QueryEval AndQueryExp OrQueryExp")
        + among("javax.management.", "NotQueryExp BetweenQueryExp BinaryRelQueryExp InQueryExp InstanceOfQueryExp")
        + among("javax.management.", "MatchQueryExp BinaryOpValueExp AttributeValueExp QualifiedAttributeValueExp")
        + among("javax.management.", "ClassAttributeValueExp StringValueExp NumericValueExp BooleanValueExp")
        + "java.util.Vector;javax.security.auth.Subject;!*";

    static final String CREDENTIALS = "maxdepth=2;maxrefs=10;maxarray=2;maxbytes=10000;java.lang.String;!*";

    static String among(String prefix, String names) {
        return prefix + names.replace(" ", ";" + prefix) + ";";
    }

    /** One MBean: numbers and texts by name, replaced as a whole. */
    static class Figures implements DynamicMBean {
        volatile Map values;

        Figures(Map values) {
            this.values = values;
        }

        public Object getAttribute(String name) throws AttributeNotFoundException {
            Map current = values;
            if (!current.containsKey(name)) throw new AttributeNotFoundException(name);
            return current.get(name);
        }

        public AttributeList getAttributes(String[] names) {
            Map current = values;
            AttributeList found = new AttributeList();
            for (int i = 0; i < names.length; i++)
                if (current.containsKey(names[i])) found.add(new Attribute(names[i], current.get(names[i])));
            return found;
        }

        public void setAttribute(Attribute attribute) throws AttributeNotFoundException {
            throw new AttributeNotFoundException("figures are read");
        }

        public AttributeList setAttributes(AttributeList attributes) {
            return new AttributeList();
        }

        public Object invoke(String name, Object[] arguments, String[] types) {
            throw new UnsupportedOperationException("figures are read");
        }

        public MBeanInfo getMBeanInfo() {
            Map current = values;
            MBeanAttributeInfo[] infos = new MBeanAttributeInfo[current.size()];
            int i = 0;
            for (Iterator names = current.keySet().iterator(); names.hasNext(); i++) {
                String name = (String) names.next();
                String type = current.get(name) instanceof String ? "java.lang.String" : "java.lang.Double";
                infos[i] = new MBeanAttributeInfo(name, type, name.replace('_', ' '), true, false, false);
            }
            return new MBeanInfo("fastpath.Figures", "Figures of Fastpath", infos, null, null, null);
        }
    }

    /** Lets a reader read, and nothing else. */
    static class ReadOnly implements InvocationHandler {
        MBeanServer server;

        public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
            String name = method.getName();
            if (name.equals("setMBeanServer")) {
                server = (MBeanServer) arguments[0];
                return null;
            }
            if (name.equals("getMBeanServer")) return server;
            // The connector keeps it in maps.
            if (name.equals("hashCode")) return Integer.valueOf(System.identityHashCode(proxy));
            if (name.equals("equals")) return Boolean.valueOf(proxy == arguments[0]);
            if (name.equals("toString")) return "figures";
            if (!READING.contains(name)) throw new SecurityException("figures are read: " + name + " is refused");
            try {
                return method.invoke(server, arguments);
            } catch (InvocationTargetException error) {
                throw error.getTargetException();
            }
        }
    }

    /** Asks for the password, of any user; without one everybody is let in. */
    static class Door implements JMXAuthenticator {
        String password;

        Door(String password) {
            this.password = password;
        }

        public Subject authenticate(Object credentials) {
            if (password != null) {
                String[] given = credentials instanceof String[] ? (String[]) credentials : new String[0];
                if (given.length != 2 || given[1] == null || !same(given[1], password))
                    throw new SecurityException("a user name, which may be any, and the password are needed");
            }
            Subject reader = new Subject();
            reader.getPrincipals().add(new JMXPrincipal("reader"));
            reader.setReadOnly();
            return reader;
        }

        /** In a time that does not depend on how much of it is right. */
        static boolean same(String given, String wanted) {
            try {
                return MessageDigest.isEqual(digest(given), digest(wanted));
            } catch (Exception error) {
                throw new SecurityException(error.toString());
            }
        }

        static byte[] digest(String text) throws Exception {
            return MessageDigest.getInstance("SHA-256").digest(text.getBytes("UTF-8"));
        }
    }

    /** A connection, and when something came over it last. */
    static class Line extends Socket {
        volatile boolean spoke;
        volatile long heard = System.nanoTime();

        public InputStream getInputStream() throws IOException {
            return new FilterInputStream(super.getInputStream()) {
                public int read() throws IOException {
                    byte[] one = new byte[1];
                    return read(one, 0, 1) < 0 ? -1 : one[0] & 255;
                }

                public int read(byte[] into, int from, int length) throws IOException {
                    try {
                        int found = in.read(into, from, length);
                        spoke = true;
                        heard = System.nanoTime();
                        return found;
                    } catch (SocketTimeoutException error) {
                        Line.this.close();  // TLS leaves it open in a handshake
                        throw error;
                    }
                }
            };
        }

        /** Whether this one is closed before another. */
        boolean yields(Line other) {
            return spoke == other.spoke ? heard - other.heard < 0 : other.spoke;
        }
    }

    /**
     * Takes every newcomer: where there are too many already, of one address or in all, the one goes that has never
     * said anything, else the one that has been silent for longest. So connections that are left open, for which
     * nobody needs a password, keep nobody out.
     */
    static class Listening extends ServerSocket {
        static final int ALL_MAX = 48;  // fewer than there are threads
        static final int ADDRESS_MAX = 24;

        final List open = new ArrayList();
        final SSLContext context;

        Listening(int port, InetAddress address, SSLContext context) throws IOException {
            super(port, 50, address);
            this.context = context;
        }

        public Socket accept() throws IOException {
            Line line = new Line();
            implAccept(line);
            makeRoom(line.getInetAddress());
            open.add(line);
            if (context == null) return line;
            return context.getSocketFactory().createSocket(line, (InputStream) null, true);
        }

        /** By the one thread that accepts. */
        void makeRoom(InetAddress address) {
            for (Iterator lines = open.iterator(); lines.hasNext();)
                if (((Line) lines.next()).isClosed()) lines.remove();
            if (count(address) >= ADDRESS_MAX) close(address);
            else if (open.size() >= ALL_MAX) close(null);
        }

        int count(InetAddress address) {
            int found = 0;
            for (Iterator lines = open.iterator(); lines.hasNext();)
                if (((Line) lines.next()).getInetAddress().equals(address)) found++;
            return found;
        }

        void close(InetAddress address) {
            Line first = null;
            for (Iterator lines = open.iterator(); lines.hasNext();) {
                Line line = (Line) lines.next();
                if (address != null && !line.getInetAddress().equals(address)) continue;
                if (first == null || line.yields(first)) first = line;
            }
            open.remove(first);
            try {
                first.close();
            } catch (IOException error) {
                // it is gone
            }
        }
    }

    /** Listens on one address, with TLS or without; the registry and the connector share its port. */
    static class Sockets implements RMIServerSocketFactory {
        InetAddress address;
        SSLContext context;

        Sockets(InetAddress address, SSLContext context) {
            this.address = address;
            this.context = context;
        }

        public ServerSocket createServerSocket(int port) throws IOException {
            return new Listening(port, address, context);
        }

        public boolean equals(Object other) {
            return other instanceof Sockets;
        }

        public int hashCode() {
            return 1;
        }
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        Map settings = new HashMap();
        for (String line = input.readLine(); line != null && !line.equals("start"); line = input.readLine()) {
            String[] words = line.split("\t", 2);
            settings.put(words[0], words[1]);
        }
        MBeanServer server = MBeanServerFactory.newMBeanServer();
        try {
            serve(server, settings);
        } catch (Exception error) {
            System.out.println("failed " + error);
            System.exit(1);
        }
        System.out.println("ready");
        try {
            follow(server, input);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);
        }
        System.exit(0);  // its parent is gone; RMI's threads would go on
    }

    static void serve(MBeanServer server, Map settings) throws Exception {
        int port = Integer.parseInt((String) settings.get("port"));
        String host = (String) settings.get("host");
        SSLContext context = settings.containsKey("keystore") ? context(settings) : null;
        RMIServerSocketFactory listening = new Sockets(host.equals("*") ? null : InetAddress.getByName(host), context);
        RMIClientSocketFactory connecting = context == null ? null : new SslRMIClientSocketFactory();
        Registry registry = LocateRegistry.createRegistry(port, connecting, listening);
        Map environment = new HashMap();
        environment.put("jmx.remote.authenticator", new Door((String) settings.get("password")));
        environment.put("jmx.remote.rmi.server.credentials.filter.pattern", CREDENTIALS);
        environment.put("jmx.remote.rmi.server.serial.filter.pattern", FILTER);
        RMIJRMPServerImpl root = new RMIJRMPServerImpl(port, connecting, listening, environment);
        JMXServiceURL address = new JMXServiceURL("rmi", (String) settings.get("public"), port);
        RMIConnectorServer connector = new RMIConnectorServer(address, environment, root, server);
        connector.setMBeanServerForwarder((MBeanServerForwarder) Proxy.newProxyInstance(
            Bridge.class.getClassLoader(), new Class[] {MBeanServerForwarder.class}, new ReadOnly()));
        connector.start();
        registry.bind("jmxrmi", root);
    }

    static SSLContext context(Map settings) throws Exception {
        char[] password = ((String) settings.get("storepass")).toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(new ByteArrayInputStream(Base64.getDecoder().decode((String) settings.get("keystore"))), password);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, password);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(keys.getKeyManagers(), null, null);
        return context;
    }

    static void follow(MBeanServer server, BufferedReader input) throws Exception {
        Map beans = new HashMap();
        Map snapshot = new HashMap();
        Map values = null;
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            String[] words = line.split("\t", 3);
            if (words[0].equals("bean")) {
                values = new TreeMap();
                snapshot.put(new ObjectName(words[1]), values);
            } else if (words[0].equals("number")) {
                values.put(words[1], words[2].length() == 0 ? null : Double.valueOf(words[2]));
            } else if (words[0].equals("text")) {
                values.put(words[1], words[2]);
            } else if (words[0].equals("commit")) {
                show(server, beans, snapshot);
                snapshot = new HashMap();
            }
        }
    }

    static void show(MBeanServer server, Map beans, Map snapshot) throws Exception {
        for (Iterator names = snapshot.keySet().iterator(); names.hasNext();) {
            ObjectName name = (ObjectName) names.next();
            Figures known = (Figures) beans.get(name);
            if (known != null) {
                known.values = (Map) snapshot.get(name);
                continue;
            }
            Figures made = new Figures((Map) snapshot.get(name));
            beans.put(name, made);
            server.registerMBean(made, name);
        }
        for (Iterator names = beans.keySet().iterator(); names.hasNext();) {
            ObjectName name = (ObjectName) names.next();
            if (snapshot.containsKey(name)) continue;
            server.unregisterMBean(name);
            names.remove();
        }
    }
}
