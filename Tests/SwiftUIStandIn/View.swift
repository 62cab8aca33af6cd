// The parts of SwiftUI that `SanguineUI`, its tests and its samples use, for systems without it.
//
// The signatures and their isolation match the SDKs of Xcode 26 (iOS 26, macOS 26), where the
// initializers of SwiftUI's own views can be called from anywhere: here they are isolated to the
// main actor, which is stricter. Code that compiles here should compile there; nothing here shows
// that it looks right there. `StandInHost` draws views as far as a test needs.

#if !canImport(SwiftUI)

/// SwiftUI's `View`.
@MainActor
@preconcurrency
public protocol View {
    /// The type of the view's content.
    associatedtype Body: View

    /// The view's content.
    @ViewBuilder @MainActor @preconcurrency var body: Self.Body { get }
}

extension Never: View {
    /// `Never` has no body.
    public var body: Never { preconditionFailure("A view of SwiftUI itself has no body.") }
}

/// A view of SwiftUI's own, which is drawn directly and not through its body.
@MainActor
protocol Primitive {
    func draw(with pen: StandInPen)
}

extension View where Body == Never {
    /// A primitive view has no body.
    public var body: Never { preconditionFailure("A view of SwiftUI itself has no body.") }
}

/// SwiftUI's `ViewBuilder`; here it is isolated to the main actor, like the views.
@MainActor
@resultBuilder
public enum ViewBuilder {
    /// Builds one view.
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }

    /// Builds no view.
    public static func buildBlock() -> EmptyView { EmptyView() }

    /// Builds one view.
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }

    /// Builds several views.
    public static func buildBlock<each Content: View>(
        _ content: repeat each Content
    ) -> TupleView<(repeat each Content)> {
        TupleView((repeat each content))
    }

    /// Builds a view or none.
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }

    /// Builds the first of two.
    public static func buildEither<First: View, Second: View>(
        first: First
    ) -> _ConditionalContent<First, Second> {
        _ConditionalContent(.first(first))
    }

    /// Builds the second of two.
    public static func buildEither<First: View, Second: View>(
        second: Second
    ) -> _ConditionalContent<First, Second> {
        _ConditionalContent(.second(second))
    }
}

/// SwiftUI's `EmptyView`.
public struct EmptyView: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never

    /// Creates an empty view.
    public init() {}

    func draw(with pen: StandInPen) {}
}

/// SwiftUI's `TupleView`.
public struct TupleView<T>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    let value: T

    init(_ value: T) { self.value = value }

    func draw(with pen: StandInPen) {
        for (index, child) in Mirror(reflecting: value).children.enumerated() {
            if let view = child.value as? any View { pen.draw(view, "\(index)") }
        }
    }
}

/// The result of an `if` with an `else`, or a `switch`, in a `ViewBuilder`.
public struct _ConditionalContent<First: View, Second: View>: View, Primitive {
    enum Storage {
        case first(First)
        case second(Second)
    }

    /// SwiftUI's own views have no body.
    public typealias Body = Never
    let storage: Storage

    init(_ storage: Storage) { self.storage = storage }

    func draw(with pen: StandInPen) {
        switch storage {
        case .first(let view): pen.draw(view, "first")
        case .second(let view): pen.draw(view, "second")
        }
    }
}

extension Optional: View where Wrapped: View {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
}

extension Optional: Primitive where Wrapped: View {
    func draw(with pen: StandInPen) {
        if let self { pen.draw(self, "some") }
    }
}

/// SwiftUI's `AnyView`.
public struct AnyView: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let view: any View

    /// Creates a view that hides the type of another.
    public init<V: View>(_ view: V) { self.view = view }

    func draw(with pen: StandInPen) { pen.draw(view, "\(type(of: view))") }
}

/// SwiftUI's `PreviewProvider`.
@MainActor
@preconcurrency
public protocol PreviewProvider {
    /// The type of the previews.
    associatedtype Previews: View

    /// The previews.
    @ViewBuilder @MainActor @preconcurrency static var previews: Self.Previews { get }
}
#endif
