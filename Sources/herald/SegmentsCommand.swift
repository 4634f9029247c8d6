import ArgumentParser
import Foundation
import PushCore
import PushOperations
import PushStores

struct SegmentsCommand: ParsableCommand {
  static let configuration = CommandConfiguration(
    commandName: "segments",
    abstract: "Keeps filters by a code, and counts the devices that they find.",
    discussion: """
      A filter is JSON, such as {"all": [{"tag": "plan", "is": "gold"}, {"not": {"locale": "en"}}]}, or text, such as \
      T("plan", EQ, "gold") \\ T("level", LTE, 3). config/schemas/segment-filter.schema.json describes the JSON.
      """,
    subcommands: [Put.self, Show.self, List.self, Count.self, Sample.self, Delete.self])

  struct Put: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Stores a filter under a code, in the place of one that is there.",
      discussion: "A filter may name other segments, which must be there.")

    @OptionGroup var options: SegmentOptions

    @OptionGroup var segment: SegmentArgument

    @Option(help: "The filter; - reads it from standard input.")
    var filter: String

    func run() throws {
      let code = try segment.checked()
      let filter = try SegmentOptions.parsed(filter)
      let entry = try options.keep(filter) { client, scope in
        try client.put(code, filter, in: scope)
        return try client.entry(code, in: scope)
      }
      if let entry, options.json { print(SegmentRow(code, entry).json) }
      if !options.json { print("segment \(code) is stored") }
    }
  }

  struct Show: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints a segment's filter as JSON.")

    @OptionGroup var options: SegmentOptions

    @OptionGroup var segment: SegmentArgument

    func run() throws {
      let code = try segment.checked()
      let entry = try options.keep { client, scope in try client.entry(code, in: scope) }
      guard let entry else {
        throw Exit.failure("there is no segment \(code) of \(options.app) in \(options.environment.rawValue)")
      }
      print(options.json ? SegmentRow(code, entry).json : String(decoding: entry.filter.json, as: UTF8.self))
    }
  }

  struct List: ParsableCommand {
    static let configuration = CommandConfiguration(abstract: "Prints all segments of an app in an environment.")

    @OptionGroup var options: SegmentOptions

    func run() throws {
      let entries = try options.keep { client, scope in try client.all(scope) }.sorted { $0.key < $1.key }
      if options.json {
        for (code, entry) in entries { print(SegmentRow(code, entry).json) }
        return
      }
      let rows = entries.map { code, entry in
        [
          code.text, Date(timeIntervalSince1970: Double(entry.putAt) / 1000).formatted(.iso8601),
          String(decoding: entry.filter.json, as: UTF8.self),
        ]
      }
      for line in TextTable.lines([["CODE", "STORED AT", "FILTER"]] + rows) { print(line) }
    }
  }

  struct Count: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints how many devices a segment, or a filter that is not stored, has now.")

    @OptionGroup var options: SegmentOptions

    @OptionGroup var query: SegmentQuery

    func validate() throws { try query.check() }

    func run() throws {
      let (audience, filter) = try query.checked()
      let count = try options.keep(filter) { client, scope in try client.count(audience, in: scope) }
      print(options.json ? "{\"devices\":\(count)}" : "\(count)")
    }
  }

  struct Sample: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Prints some devices of a segment, or of a filter that is not stored, each as likely as any other.")

    @OptionGroup var options: SegmentOptions

    @OptionGroup var query: SegmentQuery

    @Option(help: "So many devices at most.")
    var limit = 10

    func validate() throws {
      guard 1...1000 ~= limit else { throw ValidationError("--limit must be from 1 to 1000, not \(limit)") }
      try query.check()
    }

    func run() throws {
      let (audience, filter) = try query.checked()
      let found = try options.keep(filter) { client, scope in try client.sample(limit, of: audience, in: scope) }
      if options.json {
        for device in found.devices { print(try SegmentSample(device).json()) }
        return
      }
      let rows = found.devices.map {
        [$0.id, $0.user ?? "", $0.locale ?? "", $0.osVersion?.text ?? "", $0.token == nil ? "no" : "yes"]
      }
      for line in TextTable.lines([["DEVICE", "USER", "LOCALE", "OS", "TOKEN"]] + rows) { print(line) }
      Exit.note("\(found.devices.count) of \(found.count) devices")
    }
  }

  struct Delete: ParsableCommand {
    static let configuration = CommandConfiguration(
      abstract: "Deletes a segment that no other segment names.")

    @OptionGroup var options: SegmentOptions

    @OptionGroup var segment: SegmentArgument

    func run() throws {
      let code = try segment.checked()
      let deletion = try options.keep { client, scope in try client.delete(code, in: scope) }
      switch deletion {
      case .deleted: print(options.json ? "{\"code\":\"\(code)\",\"deleted\":true}" : "segment \(code) is deleted")
      case .unknown:
        throw Exit.failure("there is no segment \(code) of \(options.app) in \(options.environment.rawValue)")
      case .isNamed(let codes):
        throw Exit.failure(
          "segment \(code) is not deleted: \(codes.map(\.text).joined(separator: ", ")) names it; change those first"
        )
      }
    }
  }
}
