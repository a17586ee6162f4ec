"""The certificate by which the scheduler, the workers and the client of one run identify each
other, unless the user names certificates."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from switchmark.cluster.description import Tls

_SKEW = timedelta(days=1)
"""Testbeds' clocks may be behind this host's. Dask's `Security.temporary` allows no difference."""

_LIFE = timedelta(days=365)


def made_for_a_run() -> Tls:
    """Return a self-signed certificate and its key, as texts. Only the lab's members have the
    key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "switchmark")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
        .sign(key, hashes.SHA256())
    )
    text = certificate.public_bytes(Encoding.PEM).decode()
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return Tls(ca=text, cert=text, key=secret)
