package import PushCore
import PushIO

extension DeviceRegistry {
  /// The ordinals in a set, ascending: at most `limit` after `ordinal`. Empty: no more.
  package func members(
    of set: DeviceSet, after ordinal: UInt32? = nil, limit: Int, in scope: AppScope, then: @escaping Then<[UInt32]>
  ) {
    let name = DeviceSetName(set)
    let keys = keys(scope)
    ask(["HGET", keys.bucket(of: name)], last: name.wordBytes, key: keys.next) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(.null): then(.success([]))
      case .success(.bulk(let value)) where value != [UInt8(ascii: "*")]:
        then(.success(Array(OrdinalList.all(value).drop { $0 <= ordinal ?? 0 && ordinal != nil }.prefix(limit))))
      case .success(.bulk):
        ask(["GET", keys.next], key: keys.next) { [self] result in
          switch result {
          case .failure(let failure): then(.failure(failure))
          case .success(let reply):
            let ordinals = reply.text.flatMap { Int($0) } ?? 0
            let last = min(max(0, ordinals) / OrdinalChunk.count, OrdinalChunk.chunksMaximum - 1)
            let first = ordinal.map { OrdinalChunk.index(of: $0) } ?? 0
            members(of: name, chunk: first, last: last, after: ordinal, limit: limit, keys, found: [], then)
          }
        }
      case .success: then(.failure(.unreadable("\(keys.bucket(of: name)): does something else use this key?")))
      }
    }
  }

  /// Reads chunk by chunk until it has enough.
  private func members(
    of name: DeviceSetName, chunk: Int, last: Int, after ordinal: UInt32?, limit: Int, _ keys: RegistryKeys,
    found: [UInt32], _ then: @escaping Then<[UInt32]>
  ) {
    guard found.count < limit, chunk <= last else { return then(.success(Array(found.prefix(limit)))) }
    ask(["GET", keys.chunk(chunk, of: name)], key: keys.next) { [self] result in
      switch result {
      case .failure(let failure): then(.failure(failure))
      case .success(let reply):
        var more = found
        if case .bulk(let bytes) = reply {
          more += OrdinalList.all(bytes, inChunk: chunk).drop { ordinal != nil && $0 <= ordinal ?? 0 }
        }
        members(
          of: name, chunk: chunk + 1, last: last, after: ordinal, limit: limit, keys, found: more, then)
      }
    }
  }
}
