#if !canImport(SwiftUI)
public import Foundation
import Observation
import Synchronization

/// What a drawn view shows, and what can be done with it.
@MainActor
public struct StandInScreen {
    /// The texts, in their order.
    public internal(set) var texts: [String] = []
    /// What happens when a button is pressed, by the button's text.
    public internal(set) var buttons: [String: @MainActor () -> Void] = [:]
    /// What happens when the view is pulled down.
    public internal(set) var refresh: (@Sendable () async -> Void)?
}

/// Draws a view as SwiftUI does, as far as a test needs: it keeps the state of views that are made
/// anew, gives them the environment, updates their properties, and sees what their bodies read.
@MainActor
public final class StandInHost {
    /// The environment of the first view.
    public var environment = EnvironmentValues()
    /// The time that timelines have.
    public var now = Date(timeIntervalSince1970: 0)
    /// Whether something has changed that the last drawing read.
    public var mustDraw: Bool { watch?.hasChanged ?? true }

    fileprivate var states: [String: AnyObject] = [:]
    fileprivate var appeared: Set<String> = []
    private var watch: Watch?

    /// Told on any thread.
    private final class Watch: Sendable {
        private let change = Mutex(false)

        var hasChanged: Bool { change.withLock { $0 } }

        func note() { change.withLock { $0 = true } }
    }

    /// A host without a view.
    public init() {}

    /// Draws a view, in place of the one before: where both have a view of the same type, its state
    /// stays, and what is no longer there loses its own.
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
        return StandInScreen(
            texts: canvas.texts,
            buttons: canvas.buttons,
            refresh: canvas.refreshing
        )
    }
}

/// What is drawn on.
@MainActor
final class Canvas {
    var texts: [String] = []
    var buttons: [String: @MainActor () -> Void] = [:]
    var refreshing: (@Sendable () async -> Void)?
    var appearing: [() -> Void] = []
    var places: Set<String> = []
}

/// What draws one view: where it is, and its environment.
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

    /// Gives the properties of a view, and theirs, what belongs to the view's place.
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
