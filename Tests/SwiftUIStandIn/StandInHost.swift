#if !canImport(SwiftUI)
public import Foundation
import Observation
import Synchronization

/// The content of a drawn view, and its actions.
@MainActor
public struct StandInScreen {
    /// The texts, in order.
    public internal(set) var texts: [String] = []
    /// The actions of the buttons, by text.
    public internal(set) var buttons: [String: @MainActor () -> Void] = [:]
    /// The action for pulling the view down.
    public internal(set) var refresh: (@Sendable () async -> Void)?
}

/// Draws a view as SwiftUI does, as far as a test needs: it keeps the state of views that are
/// created again, provides the environment, updates properties, and tracks what bodies read.
@MainActor
public final class StandInHost {
    /// The environment of the first view.
    public var environment = EnvironmentValues()
    /// The date of timelines.
    public var now = Date(timeIntervalSince1970: 0)
    /// Whether a value that the last drawing read has changed.
    public var mustDraw: Bool { watch?.hasChanged ?? true }

    fileprivate var states: [String: AnyObject] = [:]
    fileprivate var appeared: Set<String> = []
    /// The actions of views that have appeared, for when they are no longer drawn.
    fileprivate var disappearing: [String: () -> Void] = [:]
    private var watch: Watch?

    /// Notified on any thread.
    private final class Watch: Sendable {
        private let change = Mutex(false)

        var hasChanged: Bool { change.withLock { $0 } }

        func note() { change.withLock { $0 = true } }
    }

    /// Creates a host without a view.
    public init() {}

    /// Draws a view and replaces the previous one.
    ///
    /// If both contain a view of the same type, its state is kept; removed views lose theirs.
    public func draw(_ view: some View) -> StandInScreen {
        let watch = Watch()
        self.watch = watch
        let canvas = Canvas()
        let pen = StandInPen(host: self, screen: canvas, environment: environment)
        withObservationTracking {
            pen.draw(view, "root")
        } onChange: {
            watch.note()
        }
        states = states.filter { canvas.places.contains($0.key) }
        appeared.formIntersection(canvas.places)
        for action in canvas.appearing { action() }
        let gone = disappearing.filter { canvas.disappearing[$0.key] == nil }
        disappearing = canvas.disappearing
        for action in gone.values { action() }
        return StandInScreen(
            texts: canvas.texts,
            buttons: canvas.buttons,
            refresh: canvas.refreshing
        )
    }
}

/// The result of a drawing.
@MainActor
final class Canvas {
    var texts: [String] = []
    var buttons: [String: @MainActor () -> Void] = [:]
    var refreshing: (@Sendable () async -> Void)?
    var appearing: [() -> Void] = []
    var disappearing: [String: () -> Void] = [:]
    var places: Set<String> = []
}

/// Draws one view at its position, with its environment.
@MainActor
struct StandInPen {
    let host: StandInHost
    let screen: Canvas
    var environment: EnvironmentValues
    var place = ""

    var now: Date { host.now }

    func write(_ text: String) { screen.texts.append(text) }

    func appear(_ action: (() -> Void)?) {
        screen.places.insert(place)
        guard let action, host.appeared.insert(place).inserted else { return }
        screen.appearing.append(action)
    }

    func disappear(_ action: (() -> Void)?) { screen.disappearing[place] = action }

    func draw<Label: View>(
        _ label: Label,
        _ name: String,
        pressing action: @escaping @MainActor () -> Void
    ) {
        let first = screen.texts.count
        draw(label, name)
        screen.buttons[screen.texts[first...].joined(separator: " ")] = action
    }

    func draw<Content: View>(_ view: Content, _ name: String) {
        var pen = self
        pen.place += "/\(name):\(Content.self)"
        if let primitive = view as? any Primitive { return primitive.draw(with: pen) }
        pen.host(propertiesOf: view, at: pen.place)
        pen.draw(view.body, "body")
    }

    /// Connects the properties of a view, and their own properties, to the storage at its position.
    private func host(propertiesOf owner: Any, at place: String) {
        for child in Mirror(reflecting: owner).children {
            guard var property = child.value as? any DynamicProperty else { continue }
            let place = "\(place).\(child.label ?? "")"
            if let hosted = property as? any HostedProperty {
                screen.places.insert(place)
                hosted.host(in: host.states[place], environment)
                if host.states[place] == nil { host.states[place] = hosted.box }
            }
            host(propertiesOf: property, at: place)
            property.update()
        }
    }
}
#endif
