import Foundation
import Synchronization

/// The value of the field `Date`, made once a second.
final class GatewayDate: Sendable {
  private struct State {
    var second = Int64.min
    var text = ""
  }

  private let state = Mutex(State())

  private static let days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]
  private static let months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

  func text(unixMilliseconds: Int64) -> String {
    let second = unixMilliseconds / 1000
    return state.withLock { state in
      if state.second != second {
        state.second = second
        state.text = GatewayDate.text(unixSeconds: second)
      }
      return state.text
    }
  }

  /// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7).
  static func text(unixSeconds: Int64) -> String {
    var calendar = Calendar(identifier: .gregorian)
    calendar.timeZone = .gmt
    let date = Date(timeIntervalSince1970: Double(unixSeconds))
    func part(_ component: Calendar.Component) -> Int { calendar.component(component, from: date) }
    func two(_ component: Calendar.Component) -> String {
      let number = part(component)
      return number < 10 ? "0\(number)" : "\(number)"
    }
    let day = "\(days[part(.weekday) - 1]), \(two(.day)) \(months[part(.month) - 1]) \(part(.year))"
    return "\(day) \(two(.hour)):\(two(.minute)):\(two(.second)) GMT"
  }
}
