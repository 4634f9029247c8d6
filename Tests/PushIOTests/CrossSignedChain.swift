import TestSupport

/// Certificates made with openssl. "New Root" signed Middle, which signed server.test. It signed itself (`root.pem`), and "Old Root" signed it
/// too (`cross.pem`; `expired.pem`). `foreign.pem` has the same name and another key. `hashed` is a folder of authorities with `root.pem`,
/// `empty` one without any.
struct CrossSignedChain {
  private let folder: TemporaryFolder

  init() throws {
    folder = try TemporaryFolder("chain")
    let result = try ChildProcess.run(["/bin/bash", "-ec", CrossSignedChain.script, folder.path])
    guard result.status == 0 else { throw TestFailure("openssl: \(result.errors)") }
  }

  func file(_ name: String) -> String { folder.path(name) }

  private static let script = """
    cd "$0"
    authority=basicConstraints=critical,CA:TRUE
    self() {
      openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $1.key -out $1.pem -subj "/CN=$2" -days 30
    }
    # key, name, issuer, extension, file, days
    sign() {
      [ -s $1.key ] || openssl ecparam -name prime256v1 -genkey -noout -out $1.key
      openssl req -new -key $1.key -subj "/CN=$2" | openssl x509 -req -CA $3.pem -CAkey $3.key -CAcreateserial \
        -days ${6:-30} -extfile <(printf '%s\\n' "$4" authorityKeyIdentifier=none subjectKeyIdentifier=none) -out $5.pem
    }
    self old "Old Root"
    self root "New Root"
    self foreign "New Root"
    sign root "New Root" old $authority cross
    sign root "New Root" old $authority expired -1
    sign middle Middle root $authority middle
    sign leaf server.test middle subjectAltName=DNS:server.test leaf
    cat leaf.pem middle.pem >chain.pem
    cat expired.pem cross.pem >many.pem
    mkdir empty hashed
    cp root.pem hashed/$(openssl x509 -noout -subject_hash -in root.pem).0
    """
}
