/// Returns after some turns of the main actor.
///
/// A model that is released in the turn in which it was requested is kept, see ``ModelTable``.
@MainActor
func turns() async {
    for _ in 1...5 { await Task.yield() }  // tidy: allow busy-wait: these are the turns.
}
