#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// How every QueryView in a part of the app looks.
///
/// ```swift
/// struct QuietStyle: QueryViewStyle {
///     func makeBody(configuration: Configuration) -> some View {
///         if let content = configuration.content { content } else { configuration.placeholder }
///     }
/// }
/// ```
///
/// Set it with `queryViewStyle(_:)` on a view above.
@MainActor
public protocol QueryViewStyle: Sendable {
    /// The type of the view.
    associatedtype Body: View
    /// What there is to show.
    typealias Configuration = QueryViewConfiguration

    /// The view of what there is to show.
    @ViewBuilder @MainActor func makeBody(configuration: Configuration) -> Body
}

/// What a QueryViewStyle has to show.
@MainActor
public struct QueryViewConfiguration {
    /// What is to be shown beside the content, or in its place.
    public let status: QueryStatus
    /// The content; `nil` if there is none.
    public let content: AnyView?
    /// What is shown while the first content is on its way.
    public let placeholder: AnyView
    /// Asks again; it returns at once, and the status says what becomes of it.
    public let retry: @MainActor () -> Void

    /// Creates what a style is given, to draw or test the style alone.
    ///
    /// - Parameters:
    ///   - status: What is to be shown.
    ///   - content: The content. Default: none.
    ///   - placeholder: What stands in its place meanwhile.
    ///   - retry: Asks again. Default: does nothing.
    public init(
        status: QueryStatus,
        content: AnyView? = nil,
        placeholder: AnyView,
        retry: @escaping @MainActor () -> Void = {}
    ) {
        self.status = status
        self.content = content
        self.placeholder = placeholder
        self.retry = retry
    }
}

/// The style that a QueryView has if no other is set.
///
/// Content stands alone, or above a subdued note: "As of 5 minutes ago, offline". Without content
/// there is the placeholder, or the system's view for content that is not available with the reason
/// and a button that tries again.
public struct AutomaticQueryViewStyle: QueryViewStyle {
    private let texts: QueryTexts

    /// The style, with these texts.
    public nonisolated init(texts: QueryTexts = QueryTexts()) { self.texts = texts }

    /// The view of what there is to show.
    public func makeBody(configuration: Configuration) -> some View {
        let status = configuration.status
        switch status.stage {
        case .content:
            // The stack is there without a note, too: the content stays the same view.
            VStack(alignment: .leading) {
                configuration.content
                if status.isOutdated { OutdatedNote(status: status, texts: texts) }
            }
        case .loading:
            configuration.placeholder
        case .failed, .empty:
            ContentUnavailableView {
                Label(texts.title(status), systemImage: symbol(of: status))
            } description: {
                if let error = status.error { Text(verbatim: texts.message(error)) }
            } actions: {
                if status.canRetry { Button(texts.retry, action: configuration.retry) }
            }
        }
    }

    private func symbol(of status: QueryStatus) -> String {
        if status.isOffline { return "wifi.slash" }
        return status.error == nil ? "tray" : "exclamationmark.triangle"
    }
}

/// Says how old content is that could not be renewed; drawn anew each minute.
private struct OutdatedNote: View {
    let status: QueryStatus
    let texts: QueryTexts

    var body: some View {
        TimelineView(.everyMinute) { context in
            Text(verbatim: texts.note(status, status.age(at: Timestamp(context.date))))
        }
        .font(.footnote)
        .foregroundStyle(.secondary)
    }
}

extension QueryViewStyle where Self == AutomaticQueryViewStyle {
    /// The style that a query view has if no other is set.
    public static var automatic: Self { AutomaticQueryViewStyle() }

    /// The style that a query view has if no other is set, with texts of the app's own.
    public static func automatic(texts: QueryTexts) -> Self {
        AutomaticQueryViewStyle(texts: texts)
    }
}

/// Where query views find their style.
private enum StyleKey: EnvironmentKey {
    static let defaultValue: any QueryViewStyle = AutomaticQueryViewStyle()
}

extension EnvironmentValues {
    /// How query views look.
    var queryViewStyle: any QueryViewStyle {
        get { self[StyleKey.self] }
        set { self[StyleKey.self] = newValue }
    }
}

extension View {
    /// Sets how every query view in this view looks.
    public func queryViewStyle(_ style: some QueryViewStyle) -> some View {
        environment(\.queryViewStyle, style)
    }
}
#endif
