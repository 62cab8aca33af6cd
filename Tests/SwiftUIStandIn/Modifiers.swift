#if !canImport(SwiftUI)

/// A view with an additional property.
struct Modified<Content: View>: View, Primitive {
    typealias Body = Never
    let content: Content
    let change: @MainActor (StandInPen) -> StandInPen

    func draw(with pen: StandInPen) { change(pen).draw(content, "content") }
}

extension View {
    /// Sets an environment value for this view and its content.
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

    /// Sets the action for pulling the view down.
    public func refreshable(action: @escaping @Sendable () async -> Void) -> some View {
        Modified(content: self) { pen in
            pen.screen.refreshing = action
            return pen
        }
    }

    /// Sets an action for when the view appears on the screen.
    public func onAppear(perform action: (() -> Void)? = nil) -> some View {
        Modified(content: self) { pen in
            pen.appear(action)
            return pen
        }
    }

    /// Sets an action for when the view disappears from the screen.
    public func onDisappear(perform action: (() -> Void)? = nil) -> some View {
        Modified(content: self) { pen in
            pen.disappear(action)
            return pen
        }
    }

    /// Sets the font of the texts in the view.
    public func font(_ font: Font?) -> some View { self }

    /// Sets the style of the texts in the view.
    public func foregroundStyle<S: ShapeStyle>(_ style: S) -> some View { self }
}

/// SwiftUI's `Font`.
public struct Font: Hashable, Sendable {
    /// The font of footnotes.
    public static let footnote = Font()
}

/// SwiftUI's `ShapeStyle`.
public protocol ShapeStyle: Sendable {}

/// SwiftUI's `HierarchicalShapeStyle`.
public struct HierarchicalShapeStyle: ShapeStyle {}

extension ShapeStyle where Self == HierarchicalShapeStyle {
    /// A style less prominent than the content.
    public static var secondary: HierarchicalShapeStyle { HierarchicalShapeStyle() }
}
#endif
