// What `SanguineUI`, its tests and its samples use of SwiftUI, declared for systems that have none.
//
// The signatures and their isolation are those of the SDKs of Xcode 26 (iOS 26, macOS 26), where
// SwiftUI's own views have initializers that may be called from anywhere: here they are the main
// actor's, which is stricter. What compiles here is meant to compile there; nothing here shows that
// it looks right there. `StandInHost` draws views as far as a test needs.

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
    /// There is none.
    public var body: Never { preconditionFailure("A view of SwiftUI's own has no body.") }
}

/// A view of SwiftUI's own: drawn by itself, and not by its body.
@MainActor
protocol Primitive {
    func draw(with pen: StandInPen)
}

extension View where Body == Never {
    /// There is none.
    public var body: Never { preconditionFailure("A view of SwiftUI's own has no body.") }
}

/// SwiftUI's `ViewBuilder`; here it is the main actor's, as the views are.
@MainActor
@resultBuilder
public enum ViewBuilder {
    /// One view.
    public static func buildExpression<Content: View>(_ content: Content) -> Content { content }

    /// No view.
    public static func buildBlock() -> EmptyView { EmptyView() }

    /// One view.
    public static func buildBlock<Content: View>(_ content: Content) -> Content { content }

    /// Several views.
    public static func buildBlock<each Content: View>(
        _ content: repeat each Content
    ) -> TupleView<(repeat each Content)> {
        TupleView((repeat each content))
    }

    /// A view, or none.
    public static func buildIf<Content: View>(_ content: Content?) -> Content? { content }

    /// The first of two.
    public static func buildEither<First: View, Second: View>(
        first: First
    ) -> _ConditionalContent<First, Second> {
        _ConditionalContent(.first(first))
    }

    /// The second of two.
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

    /// Nothing.
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

/// What an `if` with an `else`, or a `switch`, is in a `ViewBuilder`.
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

    /// Hides the view's type.
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
