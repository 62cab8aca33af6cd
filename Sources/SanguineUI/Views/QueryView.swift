#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// Shows a query's content, or what stands in its place: a placeholder, an error with a button that
/// tries again; and below content that could not be renewed a note of its age.
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
/// How it looks is its style's business, see QueryViewStyle.
public struct QueryView<Model: FetchedModel, Content: View, Placeholder: View>: View {
    @Environment(\.queryViewStyle) private var style
    private let model: Model
    private let content: (Model.Content) -> Content
    private let placeholder: Placeholder

    /// Shows what a model has.
    ///
    /// - Parameters:
    ///   - model: The model: a projected value, such as `$profile`.
    ///   - content: The view of the content.
    ///   - placeholder: What is shown while the first content is on its way.
    public init(
        _ model: Model,
        @ViewBuilder content: @escaping (Model.Content) -> Content,
        @ViewBuilder placeholder: () -> Placeholder
    ) {
        self.model = model
        self.content = content
        self.placeholder = placeholder()
    }

    /// Shows what a model has, and a progress view while the first content is on its way.
    public init(_ model: Model, @ViewBuilder content: @escaping (Model.Content) -> Content)
    where Placeholder == ProgressView<EmptyView, EmptyView> {
        self.init(model, content: content) { ProgressView() }
    }

    /// The content, or what stands in its place.
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
