"""Conversion of KubeadmControlPlanes and their templates between v1beta1 and v1beta2: equal to upstream's, and made of tables that lead both ways."""
