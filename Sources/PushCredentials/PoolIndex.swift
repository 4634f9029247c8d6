/// A pool of connections in a lane's table of pools.
package struct PoolIndex: Hashable, Sendable {
  package var value: UInt16

  package init(_ value: UInt16) {
    self.value = value
  }
}
