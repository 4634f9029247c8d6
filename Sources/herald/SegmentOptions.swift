import ArgumentParser
import Foundation
import PushCore
import PushOperations
import PushStores

/// Options of all segment commands.
struct SegmentOptions: ParsableArguments {
  @OptionGroup var common: CommonOptions

  @Option(help: "The app's bundle id.")
  var app: String

  @Option(help: "production or sandbox.")
  var environment: EnvironmentName

  @Flag(help: "Print JSON Lines.")
  var json = false

  func validate() throws { _ = try scope() }

  private func scope() throws -> AppScope {
    guard let scope = AppScope(app: app, environment: environment.environment) else {
      throw ValidationError(
        "--app must be a bundle id (letters, digits, dots, hyphens, underscores), not \"\(app.prefix(80))\"")
    }
    return scope
  }

  /// A given filter, `-` from standard input; an invalid one is exit 64 with the position of the error.
  static func parsed(_ text: String) throws -> SegmentFilter {
    var bytes = Array(text.utf8)
    if text == "-" {
      let maximum = SegmentLimits.bytesMaximum + 1
      bytes = Array(try FileHandle.standardInput.read(upToCount: maximum) ?? Data())
    }
    do throws(SegmentFilterError) {
      return try SegmentFilterParser.parse(bytes)
    } catch {
      throw ValidationError("--filter: \(error)")
    }
  }

  /// Runs the work on the segments; a failure becomes a message and exit 1. If the given filter names an unknown segment, it is exit 64
  /// with the position.
  func keep<Value>(
    _ filter: SegmentFilter? = nil, _ work: (SegmentClient, AppScope) throws -> Value
  ) throws -> Value {
    let (configuration, _) = try common.begin()
    let client: SegmentClient
    do {
      client = try SegmentClient(configuration)
    } catch {
      throw Exit.configuration("\(error)")
    }
    defer { client.close() }
    do {
      return try work(client, try scope())
    } catch let failure as SegmentFailure {
      if case .filter(let error) = failure, let filter { throw ValidationError("--filter: \(filter.place(error))") }
      guard case .filter(let error) = failure, let code = error.path.first else { throw Exit.failure("\(failure)") }
      if case .unknownSegment([code]) = error {
        throw Exit.failure("there is no segment \(code) of \(app) in \(environment.rawValue)")
      }
      throw Exit.failure("the segment \(code) \(error)")
    }
  }
}

/// The segment that a command works on.
struct SegmentArgument: ParsableArguments {
  @Argument(help: "The segment's code: 1 to 64 letters, digits, hyphens, underscores, dots and colons.")
  var code: String

  func validate() throws { _ = try checked() }

  func checked() throws -> SegmentCode { try Self.parsed(code) }

  static func parsed(_ text: String) throws -> SegmentCode {
    guard let code = SegmentCode(text) else {
      throw ValidationError("the code \(SegmentCode.rule), not \"\(text.prefix(80))\"")
    }
    return code
  }
}

/// A segment, or a filter instead.
struct SegmentQuery: ParsableArguments {
  @Argument(help: "The segment's code.")
  var code: String?

  @Option(help: "A filter in place of a code; - reads it from standard input.")
  var filter: String?

  func check() throws {
    switch (code, filter) {
    case (nil, nil): throw ValidationError("give a segment's code, or a --filter")
    case (.some, .some): throw ValidationError("give a segment's code or a --filter, not both")
    case (.some(let code), nil): _ = try SegmentArgument.parsed(code)
    case (nil, .some): break
    }
  }

  /// The query, and the filter that was given.
  func checked() throws -> (AudienceQuery, SegmentFilter?) {
    if let code { return (.segment(try SegmentArgument.parsed(code)), nil) }
    let filter = try SegmentOptions.parsed(filter ?? "")
    return (.filter(filter), filter)
  }
}

/// A segment for `--json`, with the filter as it is stored.
struct SegmentRow {
  private let code: SegmentCode
  private let entry: SegmentEntry

  init(_ code: SegmentCode, _ entry: SegmentEntry) {
    self.code = code
    self.entry = entry
  }

  var json: String {
    let filter = String(decoding: entry.filter.json, as: UTF8.self)
    // A code needs no escapes.
    return "{\"code\":\"\(code)\",\"filter\":\(filter),\"put_at\":\(entry.putAt)}"
  }
}

/// A device of a sample for `--json`; `herald devices show` prints all its fields.
struct SegmentSample: Encodable {
  private let device: String
  private let user: String?
  private let locale: String?
  private let osVersion: String?
  private let token: Bool

  private enum CodingKeys: String, CodingKey {
    case device, user, locale, token
    case osVersion = "os_version"
  }

  init(_ record: DeviceRecord) {
    device = record.id
    user = record.user
    locale = record.locale
    osVersion = record.osVersion?.text
    token = record.token != nil
  }

  func json() throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return String(decoding: try encoder.encode(self), as: UTF8.self)
  }
}
