"""Certificates of our own CA, like Apple's: topics in an extension, or one in the subject."""

import datetime
import ipaddress
import os
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

MDM_TOPIC = "com.apple.mgmt.External.42"
TOPICS = x509.ObjectIdentifier("1.2.840.113635.100.6.3.6")


def der(tag, content):
    count = len(content)
    length = bytes([count]) if count < 128 else b"\x82" + count.to_bytes(2, "big")
    return bytes([tag]) + length + content


def topics_extension(topics):
    """A sequence of each topic and, in a sequence, its kind."""
    parts = b"".join(der(0x0C, topic.encode()) + der(0x30, der(0x0C, b"app")) for topic in topics)
    return x509.UnrecognizedExtension(TOPICS, der(0x30, parts))


class Folder:
    """A CA (ca.pem), a server's certificate for localhost, and those of two clients: app and mdm."""

    def __init__(self, topics):
        self.folder = tempfile.TemporaryDirectory(prefix="apns-simulator-certificates-")
        self.authority_key = ec.generate_private_key(ec.SECP256R1())
        self.authority_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Check CA")])
        self.write("ca", self.authority_key, self.authority_name, [(x509.BasicConstraints(ca=True, path_length=None), True)])
        names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        self.issue("server", [(NameOID.COMMON_NAME, "localhost")], [(x509.SubjectAlternativeName(names), False)])
        self.issue("app", [(NameOID.COMMON_NAME, "Apple Push Services"), (NameOID.USER_ID, topics[0])],
                   [(topics_extension(topics), False)])
        self.issue("mdm", [(NameOID.COMMON_NAME, "MDM"), (NameOID.USER_ID, MDM_TOPIC)], [])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def issue(self, name, subject, extensions):
        self.write(name, ec.generate_private_key(ec.SECP256R1()),
                   x509.Name([x509.NameAttribute(kind, value) for kind, value in subject]), extensions)

    def write(self, name, key, subject, extensions):
        now = datetime.datetime.now(datetime.timezone.utc)
        builder = (x509.CertificateBuilder().subject_name(subject).issuer_name(self.authority_name)
                   .public_key(key.public_key()).serial_number(x509.random_serial_number())
                   .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=1))
                   .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                   .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority_key.public_key()),
                                  critical=False))
        for extension, is_critical in extensions:
            builder = builder.add_extension(extension, critical=is_critical)
        certificate = builder.sign(self.authority_key, hashes.SHA256())
        with open(self.path(f"{name}.pem"), "wb") as file:
            file.write(certificate.public_bytes(serialization.Encoding.PEM))
        with open(self.path(f"{name}-key.pem"), "wb") as file:
            file.write(key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
