/// An action that is performed once, on every open connection or on the devices.
package enum SimulatorAction: Hashable, Sendable {
  case goAway(FaultEffect.GoAway)
  case dropConnections
  case changeStreamLimits(FaultEffect.StreamLimits)
  /// GOAWAY with the reason Shutdown, and 503 Shutdown for later requests, until the faults are cleared.
  case shutdown
  /// Refuses the key's tokens from now on, and closes the connections that used them.
  case revoke(key: String)
  /// The user swipes a Live Activity away, on this device or (nil) on all.
  case swipe(activity: String, device: String?)

  /// Reads `shutdown`, `drop`, `goaway=…`, `streams=…`, `revoke=KEY`; the words are those of faults.
  package init(_ text: String) throws(FaultSyntaxError) {
    let text = text.trimmed
    if text == "shutdown" {
      self = .shutdown
    } else if text.hasPrefix("revoke=") {
      self = .revoke(key: String(text.dropFirst(7)))
    } else {
      let effect = try FaultRule(text).effect
      if let goAway = effect.goAway {
        self = .goAway(goAway)
      } else if let limits = effect.streamLimits {
        self = .changeStreamLimits(limits)
      } else if effect.ending == .drop {
        self = .dropConnections
      } else {
        throw FaultSyntaxError(word: text, rule: "shutdown, drop, goaway=…, streams=… or revoke=KEY")
      }
    }
  }
}
