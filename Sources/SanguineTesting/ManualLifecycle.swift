public import Sanguine

/// An app that enters and leaves the foreground when a test says so.
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

    /// The app leaves the foreground.
    ///
    /// When this returns, the client knows.
    public func enterBackground() { isForeground.set(false) }

    /// The app comes to the foreground.
    ///
    /// When this returns, the client knows, and has begun to fetch what is to be fetched.
    public func enterForeground() { isForeground.set(true) }
}
