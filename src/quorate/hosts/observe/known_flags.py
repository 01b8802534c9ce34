"""Flags that are no difference from the manifest although the manifest does not ask for them: kubeadm's own, KubeOne's, and those that say where data are."""

from __future__ import annotations

from collections.abc import Mapping


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


KUBEADMS: Mapping[str, frozenset[str]] = {
    "kube-apiserver": _names(
        "advertise-address allow-privileged authorization-config authorization-mode client-ca-file enable-bootstrap-token-auth etcd-cafile "
        "etcd-certfile etcd-keyfile etcd-servers kubelet-client-certificate kubelet-client-key kubelet-preferred-address-types "
        "proxy-client-cert-file proxy-client-key-file requestheader-allowed-names requestheader-client-ca-file "
        "requestheader-extra-headers-prefix requestheader-group-headers requestheader-username-headers secure-port service-account-issuer "
        "service-account-key-file service-account-signing-key-file service-cluster-ip-range tls-cert-file tls-private-key-file"
    ),
    "kube-controller-manager": _names(
        "allocate-node-cidrs authentication-kubeconfig authorization-kubeconfig bind-address client-ca-file cluster-cidr cluster-name "
        "cluster-signing-cert-file cluster-signing-key-file controllers kubeconfig leader-elect requestheader-client-ca-file root-ca-file "
        "service-account-private-key-file service-cluster-ip-range use-service-account-credentials"
    ),
    "kube-scheduler": _names("authentication-kubeconfig authorization-kubeconfig bind-address kubeconfig leader-elect"),
    "etcd": _names(
        "advertise-client-urls cert-file client-cert-auth data-dir initial-advertise-peer-urls initial-cluster initial-cluster-state key-file "
        "listen-client-urls listen-metrics-urls listen-peer-urls name peer-cert-file peer-client-cert-auth peer-key-file "
        "peer-trusted-ca-file snapshot-count trusted-ca-file watch-progress-notify-interval"
    ),
}
"""What kubeadm gives each program by itself. Source: cmd/kubeadm/app/phases/controlplane/manifests.go and phases/etcd/local.go of Kubernetes 1.34."""

IGNORED: Mapping[str, Mapping[str, str]] = {
    "kube-apiserver": {"endpoint-reconciler-type": "KubeOne names the API server's own default, lease"},
}
"""What clusters made by KubeOne have beside that, by program, and why it is left alone."""

PLACES: Mapping[str, frozenset[str]] = {
    "kube-apiserver": _names("etcd-prefix etcd-servers-overrides"),
    "etcd": _names("data-dir wal-dir"),
}
"""What says where etcd has its data and its log, and where in etcd objects are. A cluster keeps those that it has: with another its data would be left behind.

Without its log a member has forgotten for whom it voted; an API server that looks elsewhere serves an empty cluster, or one without some of its objects.
"""

DEFAULT_PLUGINS = _names(
    "CertificateApproval CertificateSigning CertificateSubjectRestriction ClusterTrustBundleAttest DefaultIngressClass DefaultStorageClass "
    "DefaultTolerationSeconds LimitRanger MutatingAdmissionPolicy MutatingAdmissionWebhook NamespaceLifecycle NodeDeclaredFeatureValidator "
    "PersistentVolumeClaimResize PodSecurity PodTopologyLabels Priority ResourceQuota RuntimeClass ServiceAccount StorageObjectInUseProtection "
    "TaintNodesByCondition ValidatingAdmissionPolicy ValidatingAdmissionWebhook"
)
"""Admission plugins that are on without being named. KubeOne names them all, which makes no difference.

Source: pkg/kubeapiserver/options/plugins.go of Kubernetes 1.34 and 1.35.
"""
