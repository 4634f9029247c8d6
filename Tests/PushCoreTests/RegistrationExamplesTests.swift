import Foundation
import PushCore
import TestSupport
import Testing

/// The schema's examples and the parser say the same, and what is exported is what was registered.
@Suite struct RegistrationExamplesTests {
  private struct Example: Decodable {
    let why: String
  }

  private static let now: Int64 = 1_796_000_000_500

  private func lines(_ name: String) throws -> [String] {
    let folder = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../config/schemas/examples")
    let text = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
    return text.split(separator: "\n").map(String.init)
  }

  @Test func validExamplesAreTaken() throws {
    let lines = try lines("registration.valid.jsonl")
    #expect(lines.count >= 5)
    for line in lines {
      #expect(throws: Never.self, "\(line)") {
        try RegistrationParser.parse(Array(line.utf8), now: RegistrationExamplesTests.now)
      }
    }
  }

  @Test func invalidExamplesAreRefused() throws {
    let lines = try lines("registration.invalid.jsonl")
    #expect(lines.count >= 20)
    for line in lines {
      let why = try JSONDecoder().decode(Example.self, from: Data(line.utf8)).why
      // The instance stands at the end of its line.
      let start = try #require(line.range(of: "\"instance\": "))
      let instance = line[start.upperBound...].dropLast()
      #expect(throws: JobError.self, "\(why)") {
        try RegistrationParser.parse(Array(instance.utf8), now: RegistrationExamplesTests.now)
      }
    }
  }

  @Test func anExportedDeviceIsTheRegisteredOne() throws {
    let scope = try #require(AppScope(app: "com.example.app", environment: .sandbox))
    var source = RandomRegistrations(seed: 3)
    for round in 0..<2_000 {
      guard
        case .changed(var record, _) = DeviceChange.registering(
          source.registration(), at: RegistrationExamplesTests.now, now: .max, onto: nil, fingerprint: 5)
      else { continue }
      if round % 7 == 0 {
        record.user = "/\"\\é😀"
      }
      let registration = try RegistrationParser.parse(
        record.registration(in: scope), now: RegistrationExamplesTests.now)
      #expect(registration.scope == scope)
      guard case .device(let device) = registration.subject else { throw TestFailure("no device") }
      guard
        case .changed(let again, _) = DeviceChange.registering(
          device, at: registration.at, now: .max, onto: nil, fingerprint: 5)
      else { throw TestFailure("it was refused") }
      #expect(again.modelState == record.modelState, "round \(round)")
    }
  }
}
