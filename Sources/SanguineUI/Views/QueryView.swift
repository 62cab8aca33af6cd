#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// Shows a query's content, or a placeholder or an error with a retry button instead of it.
///
/// A note of the age appears below content that could not be refreshed.
///
/// ```swift
/// struct ProfileView: View {
///     @CachedValue(.profile("42")) var profile
///
///     var body: some View {
///         QueryView($profile) { profile in Text(profile.name) }
///     }
/// }
/// ```
///
/// Its style determines how it looks, see QueryViewStyle.
public struct QueryView<Model: FetchedModel, Content: View, Placeholder: View>: View {
    @Environment(\.queryViewStyle) private var style
    private let model: Model
    private let content: (Model.Content) -> Content
    private let placeholder: Placeholder

    /// Creates a view that shows a model's content.
    ///
    /// - Parameters:
    ///   - model: The model: a projected value, such as `$profile`.
    ///   - content: The view of the content.
    ///   - placeholder: The view that is shown while the first content is loading.
    public init(
        _ model: Model,
        @ViewBuilder content: @escaping (Model.Content) -> Content,
        @ViewBuilder placeholder: () -> Placeholder
    ) {
        self.model = model
        self.content = content
        self.placeholder = placeholder()
    }

    /// Creates a view that shows a model's content, and a progress view while the first content is
    /// loading.
    public init(_ model: Model, @ViewBuilder content: @escaping (Model.Content) -> Content)
    where Placeholder == ProgressView<EmptyView, EmptyView> {
        self.init(model, content: content) { ProgressView() }
    }

    /// The content, or its replacement.
    public var body: some View {
        let configuration = QueryViewConfiguration(
            status: model.status,
            content: model.content.map { AnyView(content($0)) },
            placeholder: AnyView(placeholder),
            retry: { [model] in Task { await model.retry() } }
        )
        AnyView(style.makeBody(configuration: configuration))
    }
}
#endif
