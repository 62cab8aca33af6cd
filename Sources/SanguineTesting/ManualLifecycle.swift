public import Sanguine

/// An app that enters and leaves the foreground under a test's control.
///
/// ```swift
/// let lifecycle = ManualLifecycle()
/// configuration.lifecycle = lifecycle
/// lifecycle.enterBackground()
/// clock.advance(by: .minutes(5))
/// lifecycle.enterForeground()
/// ```
public struct ManualLifecycle: Lifecycle {
    /// Whether the app is in the foreground.
    public let isForeground: Signal<Bool>

    /// Creates an app in the foreground, or in the background.
    public init(isForeground: Bool = true) { self.isForeground = Signal(isForeground) }

    /// Moves the app to the background.
    ///
    /// When this returns, the client has been notified.
    public func enterBackground() { isForeground.set(false) }

    /// Moves the app to the foreground.
    ///
    /// When this returns, the client has been notified, and has started the fetches that are due.
    public func enterForeground() { isForeground.set(true) }
}
