public import Foundation

/// Reports whether the app is in the foreground.
///
/// Values are fetched automatically only in the foreground, and some are fetched again on return,
/// see ``RefetchEvents``. The default follows the notifications of iOS, tvOS, visionOS and macOS;
/// elsewhere an app is always in the foreground.
public protocol Lifecycle: Sendable {
    /// Whether the app is in the foreground.
    var isForeground: Signal<Bool> { get }
}

/// An app that is always in the foreground, such as a command-line program.
public struct AlwaysForeground: Lifecycle {
    /// Always true.
    public let isForeground = Signal(true)

    /// Creates the lifecycle.
    public init() {}
}

/// A lifecycle that follows an app's own notifications.
///
/// For an app extension, or an app with its own lifecycle, that posts other notifications.
public final class NotificationLifecycle: Lifecycle {
    /// Whether the app is in the foreground: true until a notification says otherwise.
    public let isForeground: Signal<Bool>
    private let observations: [Observation]

    // Immutable; a notification center may be used from any thread.
    private final class Observation: @unchecked Sendable {
        let center: NotificationCenter
        let token: any NSObjectProtocol

        init(center: NotificationCenter, token: any NSObjectProtocol) {
            self.center = center
            self.token = token
        }

        deinit { center.removeObserver(token) }
    }

    /// Follows two notifications.
    ///
    /// - Parameters:
    ///   - foreground: Posted when the app comes to the foreground.
    ///   - background: Posted when it leaves the foreground.
    ///   - center: The notification center. Default: the process's default one.
    public init(
        foreground: Notification.Name,
        background: Notification.Name,
        center: NotificationCenter = .default
    ) {
        let isForeground = Signal(true)
        self.isForeground = isForeground
        observations = [(foreground, true), (background, false)].map { name, value in
            // Without a queue: called by the posting thread, before the process may be stopped.
            let token = center.addObserver(forName: name, object: nil, queue: nil) { _ in
                isForeground.set(value)
            }
            return Observation(center: center, token: token)
        }
    }
}

/// The lifecycle of this platform's apps.
enum PlatformLifecycle {
    // By name, which avoids importing a UI framework that an extension may not have.
    static let shared: any Lifecycle = {
        #if os(iOS) || os(tvOS) || os(visionOS)
        NotificationLifecycle(
            foreground: Notification.Name("UIApplicationWillEnterForegroundNotification"),
            background: Notification.Name("UIApplicationDidEnterBackgroundNotification")
        )
        #elseif os(macOS)
        NotificationLifecycle(
            foreground: Notification.Name("NSApplicationDidBecomeActiveNotification"),
            background: Notification.Name("NSApplicationDidResignActiveNotification")
        )
        #else
        AlwaysForeground()
        #endif
    }()
}
