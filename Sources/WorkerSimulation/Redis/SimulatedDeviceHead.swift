/// The head of a device's value, in front of the jobs, as the admission script reads it. Positions count from 1. A missing record
/// has first 2 and last 1: an empty range after the version.
struct SimulatedDeviceHead {
  /// The record of the requested rate.
  var first = 2
  var last = 1
  var arrival = 0.0
  var run: UInt8 = 0
  /// The latest arrival of all rates.
  var latest = 0.0
  /// Until when delayed jobs have keys.
  var waiting = 0.0
  var waitingFirst = 2
  var waitingLast = 1
  /// Since when the token is dead, and when this record expires.
  var dead: Double?
  var deadEnds = 0.0
  var deadFirst = 2
  var deadLast = 1
  /// Until when jobs have keys of their own.
  var elsewhere = 0.0
  var elsewhereFirst = 2
  var elsewhereLast = 1
  /// Position of the first job in this value.
  var row = 2

  init(_ value: [UInt8], rate name: ArraySlice<UInt8>) {
    typealias Lua = SimulatedLuaBytes
    while let kind = Lua.byte(value, row), (1...4).contains(kind) {
      let stop = row + (kind == 1 || kind == 3 ? 12 : 4)
      if stop > value.count { break }
      switch kind {
      case 1:
        let its = Lua.unpack(value, row + 1, count: 7)
        latest = max(latest, its)
        if Lua.sub(value, row + 8, row + 11) == name {
          (first, last, arrival, run) = (row, stop, its, value[stop - 1])
        }
      case 2:
        (waiting, waitingFirst, waitingLast) = (Lua.unpack(value, row + 1, count: 4), row, stop)
      case 3:
        (dead, deadEnds) = (Lua.unpackDouble(value, row + 1), Lua.unpack(value, row + 9, count: 4))
        (deadFirst, deadLast) = (row, stop)
      default:
        (elsewhere, elsewhereFirst, elsewhereLast) = (Lua.unpack(value, row + 1, count: 4), row, stop)
      }
      row = stop + 1
    }
  }

  /// Position of a job's record.
  struct Place {
    let start: Int
    let stop: Int
    let isClaim: Bool
  }

  /// The record whose job name starts at this position; nil: there is none.
  static func record(_ value: [UInt8], nameAt at: Int) -> Place? {
    guard let count = SimulatedLuaBytes.byte(value, at - 1) else { return nil }
    if count == 5, at + 16 <= value.count { return Place(start: at - 1, stop: at + 16, isClaim: true) }
    if count > 8, SimulatedLuaBytes.byte(value, at - 2) == 161, at - 1 + Int(count) <= value.count {
      return Place(start: at - 2, stop: at - 1 + Int(count), isClaim: false)
    }
    return nil
  }
}
