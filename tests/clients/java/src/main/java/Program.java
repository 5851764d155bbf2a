import io.fabric8.kubernetes.api.model.ConfigMap;
import io.fabric8.kubernetes.api.model.ConfigMapBuilder;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import io.fabric8.kubernetes.api.model.apps.Deployment;
import io.fabric8.kubernetes.api.model.apps.DeploymentBuilder;
import io.fabric8.kubernetes.client.KubernetesClient;
import io.fabric8.kubernetes.client.KubernetesClientBuilder;
import io.fabric8.kubernetes.client.KubernetesClientException;
import io.fabric8.kubernetes.client.LocalPortForward;
import io.fabric8.kubernetes.client.Watch;
import io.fabric8.kubernetes.client.Watcher;
import io.fabric8.kubernetes.client.WatcherException;
import io.fabric8.kubernetes.client.dsl.ExecWatch;
import io.fabric8.kubernetes.client.dsl.LogWatch;
import io.fabric8.kubernetes.client.informers.ResourceEventHandler;
import io.fabric8.kubernetes.client.informers.SharedIndexInformer;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;

/** What fabric8's client is used for; each line "ok …" is something that works. */
public final class Program {
    private static final String SERVE = """
            echo hello; exec python3 -c "import socketserver as s
            class H(s.StreamRequestHandler):
             def handle(self): self.wfile.write(self.rfile.readline().upper())
            s.TCPServer(('', 8000), H).serve_forever()"
            """;

    private static void ok(String what, boolean holds) {
        if (!holds) {
            throw new IllegalStateException(what);
        }
        System.out.println("ok " + what);
    }

    private static <T> T wait(CompletableFuture<T> future) throws Exception {
        return future.get(4, TimeUnit.MINUTES);
    }

    public static void main(String[] args) throws Exception {
        try (KubernetesClient client = new KubernetesClientBuilder().build()) {
            objects(client, args[0]);
            pods(client, args[0]);
        }
    }

    private static void objects(KubernetesClient client, String namespace) throws Exception {
        CompletableFuture<ConfigMap> added = new CompletableFuture<>();
        CompletableFuture<ConfigMap> updated = new CompletableFuture<>();
        CompletableFuture<ConfigMap> deleted = new CompletableFuture<>();
        var maps = client.configMaps().inNamespace(namespace);
        SharedIndexInformer<ConfigMap> informer = maps.withName("made").inform(new ResourceEventHandler<>() {
            @Override
            public void onAdd(ConfigMap made) {
                added.complete(made);
            }

            @Override
            public void onUpdate(ConfigMap before, ConfigMap after) {
                updated.complete(after);
            }

            @Override
            public void onDelete(ConfigMap last, boolean unknown) {
                deleted.complete(last);
            }
        });
        CompletableFuture<Watcher.Action> watched = new CompletableFuture<>();
        Watch watch = maps.withName("made").watch(new Watcher<ConfigMap>() {
            @Override
            public void eventReceived(Action action, ConfigMap made) {
                watched.complete(action);
            }

            @Override
            public void onClose(WatcherException cause) {
                if (cause != null) {
                    watched.completeExceptionally(cause);
                }
            }
        });
        ConfigMap made = new ConfigMapBuilder().withNewMetadata().withName("made").withNamespace(namespace)
                .endMetadata().addToData("a", "1").build();
        client.resource(made).create();
        ok("an informer sees what is added", wait(added).getData().get("a").equals("1"));
        ok("a watch sees what is added", wait(watched) == Watcher.Action.ADDED);
        maps.withName("made").edit(one -> new ConfigMapBuilder(one).addToData("a", "2").build());
        ok("an informer sees what an edit changes", wait(updated).getData().get("a").equals("2"));
        ConfigMap applied = new ConfigMapBuilder().withNewMetadata().withName("made").withNamespace(namespace)
                .endMetadata().addToData("b", "3").build();
        Map<String, String> merged = client.resource(applied).forceConflicts().serverSideApply().getData();
        ok("an apply merges", merged.equals(Map.of("a", "2", "b", "3")));
        ok("lists have what is there", maps.list().getItems().stream()
                .anyMatch(one -> one.getMetadata().getName().equals("made")));
        maps.withName("made").delete();
        ok("an informer sees what is deleted", wait(deleted).getMetadata().getName().equals("made"));
        watch.close();
        informer.stop();

        try {
            client.resource(made).inNamespace("nowhere").create();
            ok("an error is an error", false);
        } catch (KubernetesClientException error) {
            ok("an error has code and reason", error.getCode() == 404 && error.getStatus().getReason().equals("NotFound"));
        }

        Deployment deployment = new DeploymentBuilder().withNewMetadata().withName("web").withNamespace(namespace)
                .endMetadata().withNewSpec().withReplicas(1).withNewSelector().addToMatchLabels("app", "web")
                .endSelector().withNewTemplate().withNewMetadata().addToLabels("app", "web").endMetadata()
                .withNewSpec().withTerminationGracePeriodSeconds(1L).addNewContainer().withName("main")
                .withImage("strato/host").withCommand("sleep", "3600").endContainer().endSpec().endTemplate()
                .endSpec().build();
        client.resource(deployment).create();
        client.resource(deployment).waitUntilReady(4, TimeUnit.MINUTES);
        ok("a deployment becomes ready", true);
        int replicas = client.resource(deployment).scale(2).getSpec().getReplicas();
        ok("a deployment is scaled", replicas == 2);
        client.resource(deployment).withTimeout(4, TimeUnit.MINUTES).delete();
    }

    private static void pods(KubernetesClient client, String namespace) throws Exception {
        Pod pod = new PodBuilder().withNewMetadata().withName("main").withNamespace(namespace).endMetadata()
                .withNewSpec().withTerminationGracePeriodSeconds(1L).addNewContainer().withName("main")
                .withImage("strato/host").withCommand("sh", "-c", SERVE).withNewReadinessProbe().withPeriodSeconds(1)
                .withNewTcpSocket().withNewPort(8000).endTcpSocket().endReadinessProbe().endContainer().endSpec()
                .build();
        client.resource(pod).create();
        var main = client.pods().inNamespace(namespace).withName("main");
        main.waitUntilReady(4, TimeUnit.MINUTES);
        ok("a pod becomes ready", true);
        ok("logs are read", main.getLog().startsWith("hello"));
        try (LogWatch logs = main.watchLog();
                BufferedReader lines = new BufferedReader(new InputStreamReader(logs.getOutput()))) {
            ok("logs are followed", lines.readLine().equals("hello"));
        }
        ByteArrayOutputStream out = new ByteArrayOutputStream();
        ByteArrayOutputStream err = new ByteArrayOutputStream();
        try (ExecWatch exec = main.writingOutput(out).writingError(err)
                .exec("sh", "-c", "echo out; echo err >&2; exit 7")) {
            ok("exec has the exit code", wait(exec.exitCode()) == 7);
        }
        ok("exec keeps streams apart", out.toString().equals("out\n") && err.toString().equals("err\n"));
        ByteArrayOutputStream echoed = new ByteArrayOutputStream();
        try (ExecWatch exec = main.readingInput(new ByteArrayInputStream("typed".getBytes())).writingOutput(echoed)
                .exec("head", "-c", "5")) {
            ok("exec takes what is typed", wait(exec.exitCode()) == 0 && echoed.toString().equals("typed"));
        }
        try (LocalPortForward forward = main.portForward(8000);
                Socket socket = new Socket("127.0.0.1", forward.getLocalPort())) {
            socket.getOutputStream().write("through\n".getBytes());
            BufferedReader lines = new BufferedReader(new InputStreamReader(socket.getInputStream()));
            ok("a port is forwarded", lines.readLine().equals("THROUGH"));
        }
        main.withTimeout(4, TimeUnit.MINUTES).delete();
        ok("a pod is deleted", main.get() == null);
    }
}
