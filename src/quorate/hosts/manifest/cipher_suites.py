"""The TLS cipher suites that Kubernetes' programs know, and which of them each component is set up with where a manifest does not say.

Source: Go's crypto/tls for the names; KubeOne's pkg/templates/kubernetesconfigs/tls.go for which component gets which.
"""

from __future__ import annotations

_TLS_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")
# The list of the CIS benchmark 1.8, point 4.2.12, without the two that are insecure.
KUBELET = (
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
)
# What Go offers as secure: TLS 1.3, and with elliptic curves of 1.2 AES in GCM or CBC mode and ChaCha20.
ETCD = (
    *_TLS_13,
    *(f"TLS_ECDHE_{kind}_WITH_AES_{bits}_CBC_SHA" for kind in ("ECDSA", "RSA") for bits in (128, 256)),
    *(f"TLS_ECDHE_{kind}_WITH_{cipher}" for cipher in ("AES_128_GCM_SHA256", "AES_256_GCM_SHA384") for kind in ("ECDSA", "RSA")),
    *(f"TLS_ECDHE_{kind}_WITH_CHACHA20_POLY1305_SHA256" for kind in ("RSA", "ECDSA")),
)
# The API server's list has weak suites as well: the health checks of AWS' load balancers need one of them.
API_SERVER = (
    *_TLS_13,
    *(
        f"TLS_ECDHE_{kind}_WITH_{cipher}"
        for kind in ("ECDSA", "RSA")
        for cipher in ("AES_128_CBC_SHA", "AES_128_GCM_SHA256", "AES_256_CBC_SHA", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256")
    ),
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    *(f"TLS_RSA_WITH_{cipher}" for cipher in ("AES_128_CBC_SHA", "AES_128_GCM_SHA256", "AES_256_CBC_SHA", "AES_256_GCM_SHA384")),
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
)

KNOWN = frozenset(
    {
        *API_SERVER,
        *ETCD,
        *KUBELET,
        *(
            "TLS_RSA_WITH_RC4_128_SHA",
            "TLS_RSA_WITH_AES_128_CBC_SHA256",
            "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
            "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
        ),
        *(f"TLS_ECDHE_{kind}_WITH_AES_128_CBC_SHA256" for kind in ("ECDSA", "RSA")),
        *(f"TLS_ECDHE_{kind}_WITH_CHACHA20_POLY1305" for kind in ("ECDSA", "RSA")),  # the names that these two had before RFC 7905
    }
)
"""Every name that a component accepts; with any other it does not start."""
