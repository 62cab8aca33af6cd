#if !Server
#error(
    """
    SanguineServer needs the trait 'Server' of the package 'sanguine': \
    .package(url: "…/sanguine", from: "…", traits: ["Server"])
    """
)
#endif
