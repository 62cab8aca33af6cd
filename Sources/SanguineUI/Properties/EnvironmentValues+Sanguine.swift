#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// Where views find their client.
private enum ClientKey: EnvironmentKey {
    static let defaultValue = SanguineClient.refusing(
        .invalidDeclaration(
            """
            No client is in this view's environment. Add '.sanguineClient(client)' to the app's \
            first view, or '.sanguineClient(.preview { … })' to a preview.
            """
        )
    )
}

extension EnvironmentValues {
    /// The client of the views.
    ///
    /// Without one it is a client that knows nothing and refuses every read and write with an
    /// error that says how to add one: views show that error, and nothing crashes.
    public var sanguine: SanguineClient {
        get { self[ClientKey.self] }
        set { self[ClientKey.self] = newValue }
    }
}

extension View {
    /// Gives this view, and all in it, its client.
    ///
    /// Views that are there already go on with it: they let go of what they followed of another.
    public func sanguineClient(_ client: SanguineClient) -> some View {
        environment(\.sanguine, client)
    }
}
#endif
