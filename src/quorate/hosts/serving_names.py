"""The names and addresses that a serving certificate is for, in a form in which they can be compared. Pure."""

from __future__ import annotations

from ipaddress import ip_address

from cryptography import x509


def names_in(der: bytes) -> frozenset[str]:
    """The names of a certificate; none where it has no such extension. Raises ValueError for what is no certificate."""
    extensions = x509.load_der_x509_certificate(der).extensions
    try:
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return frozenset()
    addresses = map(str, names.get_values_for_type(x509.IPAddress))
    return frozenset(map(comparable, (*names.get_values_for_type(x509.DNSName), *addresses)))


def comparable(name: str) -> str:
    """An address in its one canonical form, and a name in small letters."""
    try:
        return str(ip_address(name))
    except ValueError:
        return name.lower()
