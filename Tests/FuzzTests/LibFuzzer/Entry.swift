/// The function that libFuzzer calls: it runs the target that `HERALD_FUZZ_TARGET` names. Only `scripts/fuzz` builds it.
import Glibc

/// Only one thread calls it.
nonisolated(unsafe) private var subject: (any FuzzSubject)?

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  let input = unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
  do throws(FuzzFinding) {
    if unsafe subject == nil { unsafe subject = try makeSubject() }
    try unsafe subject?.run(input)
  } catch {
    fatalError(error.description)
  }
  return 0
}

private func makeSubject() throws(FuzzFinding) -> any FuzzSubject {
  let name = unsafe getenv("HERALD_FUZZ_TARGET").map { unsafe String(cString: $0) } ?? ""
  guard let target = FuzzTarget.all.first(where: { $0.name == name }) else {
    throw FuzzFinding("HERALD_FUZZ_TARGET names no target: \(FuzzTarget.all.map(\.name))")
  }
  return try target.subject.init()
}
