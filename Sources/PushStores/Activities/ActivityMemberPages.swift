package import PushCore
import PushIO

/// An activity's members page by page: what a page costs does not depend on how many members there are.
extension ActivityRegistry {
  /// A part of an activity's members, in no order.
  package struct MemberPage: Sendable {
    package var members: [(ordinal: UInt32, member: ActivityMember)] = []
    /// Where the next page begins; nil: there are no more members.
    package var next: MemberCursor?

    package init() {}
  }

  /// A place among an activity's members.
  package struct MemberCursor: Hashable, Sendable {
    fileprivate var chunk: Int
    fileprivate var isLive: Bool
    /// Redis' own, of `HSCAN`.
    fileprivate var scan: UInt64

    fileprivate init(chunk: Int, isLive: Bool, scan: UInt64) {
      self.chunk = chunk
      self.isLive = isLive
      self.scan = scan
    }

    /// nil: not a text of `description`.
    package init?(_ text: String) {
      let words = text.split(separator: "-", omittingEmptySubsequences: false)
      guard words.count == 3, let chunk = UInt32(words[0]), words[1] == "l" || words[1] == "r",
        let scan = UInt64(words[2])
      else { return nil }
      self.init(chunk: Int(chunk), isLive: words[1] == "l", scan: scan)
    }
  }

  /// How many members an activity has, and how many of them have an update token.
  package struct MemberCounts: Hashable, Sendable {
    package var all = 0
    package var live = 0

    package init() {}
  }

  /// The members from a place on: about `limit` of them. Redis keeps up to 512 small values together, and then has them all in one page. A
  /// member that changes between two pages may come twice, or not at all.
  package func members(
    of id: ActivityID, in scope: AppScope, from cursor: MemberCursor?, limit: Int, then: @escaping Then<MemberPage>
  ) {
    chunks(id, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let chunks):
        let places = chunks.flatMap { chunk in
          [true, false].map { MemberCursor(chunk: chunk, isLive: $0, scan: 0) }
        }
        guard let cursor else { return read(id, scope, places[...], MemberPage(), limit, then) }
        guard let index = places.firstIndex(where: { $0.chunk == cursor.chunk && $0.isLive == cursor.isLive }) else {
          return then(.success(MemberPage()))
        }
        read(id, scope, [cursor] + places[(index + 1)...], MemberPage(), limit, then)
      }
    }
  }

  private func read(
    _ id: ActivityID, _ scope: AppScope, _ places: ArraySlice<MemberCursor>, _ page: MemberPage, _ limit: Int,
    _ then: @escaping Then<MemberPage>
  ) {
    guard var place = places.first else { return then(.success(page)) }
    guard page.members.count < limit else {
      var page = page
      page.next = place
      return then(.success(page))
    }
    let key = place.isLive ? keys(scope).live(place.chunk, id) : keys(scope).rest(place.chunk, id)
    let count = limit - page.members.count
    redis.call(["HSCAN", key, "\(place.scan)", "COUNT", "\(count)"], key: key) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .array(let parts) = reply, parts.count == 2, let next = parts[0].text.flatMap({ UInt64($0) }),
        case .array(let values) = parts[1], values.count % 2 == 0
      else { return then(.failure(.unreadable("\(key) is no hash: does something else use its keys?"))) }
      var page = page
      for index in stride(from: 0, to: values.count, by: 2) {
        guard let ordinal = ActivityRegistry.place(values[index]), case .bulk(let bytes) = values[index + 1],
          let member = ActivityMember(decoding: bytes.span)
        else { return then(.failure(.unreadable("\(key) holds no member of this version"))) }
        page.members.append((UInt32(place.chunk * OrdinalChunk.count) + UInt32(ordinal), member))
      }
      place.scan = next
      read(id, scope, next == 0 ? places.dropFirst() : [place] + places.dropFirst(), page, limit, then)
    }
  }

  package func memberCounts(
    of id: ActivityID, in scope: AppScope, then: @escaping Then<MemberCounts>
  ) {
    chunks(id, in: scope) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let chunks):
        let keys = keys(scope)
        count(chunks.flatMap { [(keys.live($0, id), true), (keys.rest($0, id), false)] }[...], MemberCounts(), then)
      }
    }
  }

  private func count(
    _ hashes: ArraySlice<(key: String, isLive: Bool)>, _ counts: MemberCounts, _ then: @escaping Then<MemberCounts>
  ) {
    guard let hash = hashes.first else { return then(.success(counts)) }
    redis.call(["HLEN", hash.key], key: hash.key) { [self] result in
      guard let reply = ActivityRegistry.take(result, then) else { return }
      guard case .integer(let length) = reply, 0...Int64(OrdinalChunk.count) ~= length else {
        return then(.failure(.unreadable("\(hash.key) is no hash: does something else use its keys?")))
      }
      var counts = counts
      counts.all += Int(length)
      if hash.isLive { counts.live += Int(length) }
      count(hashes.dropFirst(), counts, then)
    }
  }
}

extension ActivityRegistry.MemberCursor: CustomStringConvertible {
  package var description: String { "\(chunk)-\(isLive ? "l" : "r")-\(scan)" }
}
