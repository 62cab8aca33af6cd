#if !canImport(SwiftUI)

/// A view with something added to it.
struct Modified<Content: View>: View, Primitive {
    typealias Body = Never
    let content: Content
    let change: @MainActor (StandInPen) -> StandInPen

    func draw(with pen: StandInPen) { change(pen).draw(content, "content") }
}

extension View {
    /// Sets a value of the environment for this view, and all in it.
    public func environment<V>(
        _ keyPath: WritableKeyPath<EnvironmentValues, V>,
        _ value: V
    ) -> some View {
        Modified(content: self) { pen in
            var pen = pen
            pen.environment[keyPath: keyPath] = value
            return pen
        }
    }

    /// What the user does by pulling the view down.
    public func refreshable(action: @escaping @Sendable () async -> Void) -> some View {
        Modified(content: self) { pen in
            pen.screen.refreshing = action
            return pen
        }
    }

    /// Called when the view comes to the screen.
    public func onAppear(perform action: (() -> Void)? = nil) -> some View {
        Modified(content: self) { pen in
            pen.appear(action)
            return pen
        }
    }

    /// The font of the texts in the view.
    public func font(_ font: Font?) -> some View { self }

    /// What the texts in the view are drawn with.
    public func foregroundStyle<S: ShapeStyle>(_ style: S) -> some View { self }
}

/// SwiftUI's `Font`.
public struct Font: Hashable, Sendable {
    /// The font of notes.
    public static let footnote = Font()
}

/// SwiftUI's `ShapeStyle`.
public protocol ShapeStyle: Sendable {}

/// SwiftUI's `HierarchicalShapeStyle`.
public struct HierarchicalShapeStyle: ShapeStyle {}

extension ShapeStyle where Self == HierarchicalShapeStyle {
    /// Less strong than the content.
    public static var secondary: HierarchicalShapeStyle { HierarchicalShapeStyle() }
}
#endif
