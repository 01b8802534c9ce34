"""What a release is made of, into `dist/`: wheel and sdist, container images with their bills of materials, manifests for clusterctl, and a Helm chart.

`python -m tools.release` makes all of it, and needs no network once what it fetches is in the caches. Nothing here is part of what operators install.
"""
