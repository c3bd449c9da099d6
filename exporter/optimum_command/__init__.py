"""`optimum-cli export fixed-capacity`: export-model where users of optimum look for it."""
