import Foundation

/// Calls a closure at the memory warnings of the system, until it is released.
final class MemoryWarnings: Sendable {
    #if os(iOS) || os(tvOS) || os(visionOS)
    // Immutable; a notification center may be used from any thread.
    private final class Observation: @unchecked Sendable {
        let token: any NSObjectProtocol

        init(_ token: any NSObjectProtocol) { self.token = token }

        deinit { NotificationCenter.default.removeObserver(token) }
    }

    private let observation: Observation

    init(_ warned: @escaping @Sendable () -> Void) {
        // By name, which avoids importing a UI framework that an extension may not have.
        let name = Notification.Name("UIApplicationDidReceiveMemoryWarningNotification")
        observation = Observation(
            NotificationCenter.default.addObserver(forName: name, object: nil, queue: nil) { _ in
                warned()
            }
        )
    }
    #else
    // Other systems send none; `Images.trimMemory()` does the same.
    init(_ warned: @escaping @Sendable () -> Void) {}
    #endif
}
