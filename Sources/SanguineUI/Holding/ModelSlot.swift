import Sanguine

/// Where a view keeps its model: the same one, until the query or the client is another.
///
/// The state of a property of a view, so it lasts as long as the view has its place, however often
/// the view's value is made anew. The first slot stays, and those of later values are dropped
/// unused: a slot is cheap, and has no model before it is asked for one.
///
/// Invariant: `held` is of the identity and the client that it was last asked for.
@MainActor
final class ModelSlot<Model: AnyObject> {
    private struct Held {
        let identity: ModelIdentity
        let client: SanguineClient
        let model: Model
    }

    private var held: Held?

    nonisolated init() {}

    /// The model of that identity and client.
    ///
    /// - Parameters:
    ///   - identity: What the model is of.
    ///   - client: Whose it is.
    ///   - make: Makes it, if it is another one than the last.
    /// - Returns: The model, the same one as the last time if that was asked for the same.
    func model(
        of identity: ModelIdentity,
        from client: SanguineClient,
        _ make: (SanguineClient) -> Model
    ) -> Model {
        if let held, held.client === client, held.identity == identity { return held.model }
        // The new one is made before the old one ends: what both need goes on.
        let model = make(client)
        held = Held(identity: identity, client: client, model: model)
        return model
    }
}
