package import PushCore

/// Takes what apps register of activities. Belongs to the thread of the registration consumer, and is turned by it.
package protocol ActivityRegistering: AnyObject {
  /// Stores an activity's update token, or that the activity is over on the device. `then` is called once it is stored, or could not be; what
  /// failed because of Redis is asked again, in the order in which it came.
  func register(
    _ registration: ActivityRegistration, at: Int64, in scope: AppScope,
    then: @escaping (Result<RegistrationAnswer, DeviceRegistryFailure>) -> Void)

  /// Once in each turn of the loop, after the Redis client's.
  func turn()
}
