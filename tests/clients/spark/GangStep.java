import io.fabric8.kubernetes.api.model.GenericKubernetesResource;
import io.fabric8.kubernetes.api.model.GenericKubernetesResourceBuilder;
import io.fabric8.kubernetes.api.model.HasMetadata;
import io.fabric8.kubernetes.api.model.Pod;
import io.fabric8.kubernetes.api.model.PodBuilder;
import java.util.List;
import java.util.Map;
import org.apache.spark.deploy.k8s.KubernetesConf;
import org.apache.spark.deploy.k8s.KubernetesDriverConf;
import org.apache.spark.deploy.k8s.KubernetesExecutorConf;
import org.apache.spark.deploy.k8s.SparkPod;
import org.apache.spark.deploy.k8s.features.KubernetesDriverCustomFeatureConfigStep;
import org.apache.spark.deploy.k8s.features.KubernetesExecutorCustomFeatureConfigStep;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/** One PodGroup for a driver and its executors, made before the driver: what Spark's step for Volcano does, too. */
public final class GangStep implements KubernetesDriverCustomFeatureConfigStep, KubernetesExecutorCustomFeatureConfigStep {
    private KubernetesConf conf;

    @Override
    public void init(KubernetesDriverConf driver) {
        conf = driver;
    }

    @Override
    public void init(KubernetesExecutorConf executor) {
        conf = executor;
    }

    private String group() {
        return conf.appId() + "-podgroup";
    }

    @Override
    public SparkPod configurePod(SparkPod pod) {
        Pod named = new PodBuilder(pod.pod()).editOrNewMetadata()
                .addToAnnotations("scheduling.k8s.io/group-name", group()).endMetadata().build();
        return new SparkPod(named, pod.container());
    }

    @Override
    public Seq<HasMetadata> getAdditionalPreKubernetesResources() {
        GenericKubernetesResource group = new GenericKubernetesResourceBuilder()
                .withApiVersion("scheduling.volcano.sh/v1beta1").withKind("PodGroup")
                .withNewMetadata().withName(group()).withNamespace(conf.namespace()).endMetadata()
                .addToAdditionalProperties("spec", Map.of("minMember", 1, "queue", "default")).build();
        return CollectionConverters.<HasMetadata>asScala(List.<HasMetadata>of(group)).toList();
    }
}
