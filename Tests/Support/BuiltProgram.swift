/// The programs of this package from the same build: they are in the tests' folder.
import Foundation
import Glibc

package enum BuiltProgram {
  package static func path(_ name: String) throws(TestFailure) -> String {
    let own = (try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe")) ?? ""
    let file = own.split(separator: "/").dropLast().map { "/\($0)" }.joined() + "/\(name)"
    guard unsafe access(file, X_OK) == 0 else {
      throw TestFailure("\(file) is not built; run `swift build --build-tests`")
    }
    return file
  }
}
