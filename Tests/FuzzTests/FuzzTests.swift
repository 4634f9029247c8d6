import Foundation
import Testing

/// Every target over its corpus, which has each input that ever failed, and over seeded mutations of it.
///
/// A trap ends the test process, as it would end a worker. `scripts/fuzz TARGET` then finds the input.
@Suite(.timeLimit(.minutes(3)))
struct FuzzTests {
  private static let seed: UInt64 = 0x4865_7261_6C64

  /// The corpus of a target, by file name.
  private func corpus(_ target: FuzzTarget) throws -> [(name: String, bytes: [UInt8])] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
      .appending(path: "Corpora/\(target.name)")
    return try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted().map { name in
      (name, Array(try Data(contentsOf: folder.appending(path: name))))
    }
  }

  @Test(arguments: FuzzTarget.all)
  func corpusHolds(target: FuzzTarget) throws {
    let files = try corpus(target)
    #expect(files.count >= 5)
    #expect(files.allSatisfy { $0.bytes.count <= 4096 }, "small files only")
    let subject = try target.subject.init()
    for (name, bytes) in files {
      #expect(throws: Never.self, "Tests/Corpora/\(target.name)/\(name)") { try subject.run(bytes) }
    }
  }

  @Test(arguments: FuzzTarget.all)
  func damageHolds(target: FuzzTarget) throws {
    var mutator = FuzzMutator(corpus: try corpus(target).map(\.bytes), seed: FuzzTests.seed)
    let subject = try target.subject.init()
    for round in 0..<target.rounds {
      let bytes = mutator.next()
      do {
        try subject.run(bytes)
      } catch {
        Issue.record("\(target.name), round \(round): \(error)\nbase64: \(Data(bytes).base64EncodedString())")
        return
      }
    }
  }

  /// The mutator works: most of its inputs are not in the corpus, and a seed repeats them.
  @Test func aSeedRepeatsItsDamage() throws {
    let files = try corpus(FuzzTarget.all[0]).map(\.bytes)
    var first = FuzzMutator(corpus: files, seed: 1)
    var again = FuzzMutator(corpus: files, seed: 1)
    let inputs = (0..<500).map { _ in first.next() }
    #expect(inputs == (0..<500).map { _ in again.next() })
    #expect(inputs.count { !files.contains($0) } > 400)
  }
}
