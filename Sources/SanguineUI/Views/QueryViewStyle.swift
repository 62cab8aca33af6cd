#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// The appearance of all QueryViews in a part of the app.
///
/// ```swift
/// struct QuietStyle: QueryViewStyle {
///     func makeBody(configuration: Configuration) -> some View {
///         if let content = configuration.content { content } else { configuration.placeholder }
///     }
/// }
/// ```
///
/// Set it with `queryViewStyle(_:)` on an enclosing view.
@MainActor
public protocol QueryViewStyle: Sendable {
    /// The type of the view.
    associatedtype Body: View
    /// The state and the content to show.
    typealias Configuration = QueryViewConfiguration

    /// Returns the view for the state and the content.
    @ViewBuilder @MainActor func makeBody(configuration: Configuration) -> Body
}

/// The state and the content that a QueryViewStyle shows.
@MainActor
public struct QueryViewConfiguration {
    /// The state to show with the content, or instead of it.
    public let status: QueryStatus
    /// The content, or `nil` if there is none.
    public let content: AnyView?
    /// The view that is shown while the first content is loading.
    public let placeholder: AnyView
    /// Starts another fetch and returns at once; the status changes accordingly.
    public let retry: @MainActor () -> Void

    /// Creates a configuration, to render or test a style separately.
    ///
    /// - Parameters:
    ///   - status: The state to show.
    ///   - content: The content. Default: none.
    ///   - placeholder: The view that is shown without content.
    ///   - retry: Starts another fetch. Default: does nothing.
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

/// The default style of a QueryView.
///
/// It shows the content, with a subdued note below it if necessary: "As of 5 minutes ago, offline".
/// Without content it shows the placeholder, or the system's view for unavailable content with the
/// reason and a retry button.
public struct AutomaticQueryViewStyle: QueryViewStyle {
    private let texts: QueryTexts

    /// Creates the style with the given strings.
    public nonisolated init(texts: QueryTexts = QueryTexts()) { self.texts = texts }

    /// Returns the view for the state and the content.
    public func makeBody(configuration: Configuration) -> some View {
        let status = configuration.status
        switch status.stage {
        case .content:
            // The stack exists even without a note, so that the content keeps its identity.
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

/// Shows the age of content that could not be refreshed, updated each minute.
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
    /// The default style of a query view.
    public static var automatic: Self { AutomaticQueryViewStyle() }

    /// The default style of a query view, with custom strings.
    public static func automatic(texts: QueryTexts) -> Self {
        AutomaticQueryViewStyle(texts: texts)
    }
}

/// The environment key of the query views' style.
private enum StyleKey: EnvironmentKey {
    static let defaultValue: any QueryViewStyle = AutomaticQueryViewStyle()
}

extension EnvironmentValues {
    /// The style of query views.
    var queryViewStyle: any QueryViewStyle {
        get { self[StyleKey.self] }
        set { self[StyleKey.self] = newValue }
    }
}

extension View {
    /// Sets the style of the query views inside this view.
    public func queryViewStyle(_ style: some QueryViewStyle) -> some View {
        environment(\.queryViewStyle, style)
    }
}
#endif
